// Turns samples into tensors. Bytes are normalised, images are in channels-last memory, with CIFAR-10's crop
// and flip; floats stay as they are; a text becomes tokens.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "learn/dataset.h"

namespace signvote {

/// One sample to be read, and how it is shifted and mirrored if it is an image. The default does neither.
struct Pick {
  std::uint32_t index = 0;
  std::int8_t right = 0;  // pixels by which the image is shifted; black comes in from the other side
  std::int8_t down = 0;
  bool mirrored = false;
};

struct Batch {
  torch::Tensor x;  // float32; int64 of a text
  torch::Tensor y;  // int64 of classes and of a text; else float32
};

/// Reads batches from the training or the test samples. Only one thread may use it, because a batch's
/// tensors are the reader's own memory and valid only until the next read.
class BatchReader {
 public:
  BatchReader(const Dataset& dataset, const Samples& samples);

  Batch read(std::span<const Pick> picks);

 private:
  torch::Tensor normalised(std::span<const Pick> picks);
  torch::Tensor tokens(std::span<const Pick> picks, std::size_t further, std::vector<std::int64_t>& into);

  const Samples& source_;
  std::size_t size_;                                // elements of one x
  std::vector<std::array<float, 256>> normalised_;  // by channel and byte
  std::vector<float> x_;
  std::vector<float> y_;
  std::vector<std::int64_t> tokens_;
  std::vector<std::int64_t> labels_;
};

}  // namespace signvote
