// Turns image bytes into tensors: normalised images in channels-last memory, with CIFAR-10's crop and flip.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "learn/dataset.h"

namespace signvote {

/// One image to be read, and how it is shifted and mirrored. The default does neither.
struct Pick {
  std::uint32_t index = 0;
  std::int8_t right = 0;  // pixels by which the image is shifted; black comes in from the other side
  std::int8_t down = 0;
  bool mirrored = false;
};

struct Batch {
  torch::Tensor images;
  torch::Tensor labels;
};

/// Reads batches from the training or the test images. Only one thread may use it, because a batch's
/// tensors are the reader's own memory and valid only until the next read.
class BatchReader {
 public:
  BatchReader(const Dataset& dataset, const LabelledImages& images);

  Batch read(std::span<const Pick> picks);

 private:
  const LabelledImages& source_;
  std::array<std::array<float, 256>, 3> normalised_{};  // by channel and byte
  std::vector<float> pixels_;
  std::vector<std::int64_t> labels_;
};

}  // namespace signvote
