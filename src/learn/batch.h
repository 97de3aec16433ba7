// From bytes to tensors: normalised images in channels-last memory, with CIFAR-10's crop and flip.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "learn/dataset.h"

namespace signvote {

/// One image to be read: which, and how it is moved. The default moves nothing.
struct Pick {
  std::uint32_t index = 0;
  std::int8_t right = 0;  // pixels by which the image is shifted; zeros come in from the other side
  std::int8_t down = 0;
  bool mirrored = false;
};

struct Batch {
  torch::Tensor images;
  torch::Tensor labels;
};

/// Fills batches from one of a data set's halves. Not for two threads at once: a batch's tensors are
/// the reader's own memory, valid until its next one.
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
