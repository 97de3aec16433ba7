#include "learn/batch.h"

#include <algorithm>
#include <cassert>

namespace signvote {
namespace {

std::vector<std::int64_t> batch_shape(std::size_t count, const Shape& shape) {
  std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(count)};
  for (const std::size_t size : shape) sizes.push_back(static_cast<std::int64_t>(size));
  return sizes;
}

/// Copies the rows that are picked, of `size` elements each.
template <class T>
torch::Tensor rows(std::span<const Pick> picks, const std::vector<T>& from, const Shape& shape,
                   std::vector<T>& into) {
  const std::size_t size = elements_of(shape);
  into.resize(picks.size() * size);
  for (std::size_t i = 0; i < picks.size(); ++i)
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(picks[i].index * size), size,
                into.begin() + static_cast<std::ptrdiff_t>(i * size));
  return torch::from_blob(into.data(), batch_shape(picks.size(), shape),
                          std::is_same_v<T, float> ? torch::kFloat32 : torch::kInt64);
}

}  // namespace

BatchReader::BatchReader(const Dataset& dataset, const Samples& samples)
    : source_(samples), size_(elements_of(samples.shape)), normalised_(dataset.mean.size()) {
  for (std::size_t c = 0; c < normalised_.size(); ++c)
    for (std::size_t byte = 0; byte < 256; ++byte)
      normalised_[c][byte] = (static_cast<float>(byte) / 255.0F - dataset.mean[c]) / dataset.deviation[c];
}

Batch BatchReader::read(std::span<const Pick> picks) {
  if (source_.text_step > 0) return {tokens(picks, 0, tokens_), tokens(picks, 1, labels_)};
  return {source_.bytes.empty() ? rows(picks, source_.floats, source_.shape, x_) : normalised(picks),
          source_.labels.empty() ? rows(picks, source_.values, source_.target_shape, y_)
                                 : rows(picks, source_.labels, source_.target_shape, labels_)};
}

torch::Tensor BatchReader::normalised(std::span<const Pick> picks) {
  // What is no image is taken as one of a single row, and comes out in the same order.
  const bool is_image = source_.shape.size() == 3;
  const std::size_t channels = is_image ? source_.shape[0] : 1;
  const std::size_t plane = size_ / channels;
  const auto height = static_cast<int>(is_image ? source_.shape[1] : 1);
  const auto width = static_cast<int>(is_image ? source_.shape[2] : size_);
  x_.resize(picks.size() * size_);
  float* out = x_.data();
  for (const Pick& pick : picks) {
    const std::span<const std::uint8_t> image = source_.bytes_of(pick.index);
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const int from_x = (pick.mirrored ? width - 1 - x : x) - pick.right;
        const int from_y = y - pick.down;
        const bool inside = from_x >= 0 && from_x < width && from_y >= 0 && from_y < height;
        for (std::size_t c = 0; c < channels; ++c) {
          const std::size_t at = c * plane + static_cast<std::size_t>(from_y * width + from_x);
          // Padding is black before normalisation, like that of torchvision's RandomCrop.
          *out++ = normalised_[c][inside ? image[at] : 0];
        }
      }
  }
  const std::vector<std::int64_t> sizes = batch_shape(picks.size(), source_.shape);
  if (!is_image) return torch::from_blob(x_.data(), sizes);
  const auto c = static_cast<std::int64_t>(channels);
  return torch::from_blob(x_.data(), sizes, {height * width * c, 1, width * c, c});
}

torch::Tensor BatchReader::tokens(std::span<const Pick> picks, std::size_t further,
                                  std::vector<std::int64_t>& into) {
  into.clear();
  for (const Pick& pick : picks) {
    const auto begin =
        source_.bytes.begin() + static_cast<std::ptrdiff_t>(pick.index * source_.text_step + further);
    into.insert(into.end(), begin, begin + static_cast<std::ptrdiff_t>(size_));
  }
  return torch::from_blob(into.data(), batch_shape(picks.size(), source_.shape), torch::kInt64);
}

}  // namespace signvote
