#include "learn/batch.h"

#include <cassert>

namespace signvote {

BatchReader::BatchReader(const Dataset& dataset, const LabelledImages& images) : source_(images) {
  for (std::size_t c = 0; c < images.channels; ++c)
    for (std::size_t byte = 0; byte < 256; ++byte)
      normalised_[c][byte] = (static_cast<float>(byte) / 255.0F - dataset.mean[c]) / dataset.deviation[c];
}

Batch BatchReader::read(std::span<const Pick> picks) {
  const std::size_t channels = source_.channels;
  const auto height = static_cast<int>(source_.height);
  const auto width = static_cast<int>(source_.width);
  pixels_.resize(picks.size() * source_.image_bytes());
  labels_.resize(picks.size());
  float* out = pixels_.data();
  for (std::size_t i = 0; i < picks.size(); ++i) {
    const Pick& pick = picks[i];
    const std::span<const std::uint8_t> image = source_.image(pick.index);
    labels_[i] = source_.labels[pick.index];
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const int from_x = (pick.mirrored ? width - 1 - x : x) - pick.right;
        const int from_y = y - pick.down;
        const bool inside = from_x >= 0 && from_x < width && from_y >= 0 && from_y < height;
        for (std::size_t c = 0; c < channels; ++c) {
          const std::size_t at =
              c * source_.height * source_.width + static_cast<std::size_t>(from_y * width + from_x);
          // Padding is black before normalisation, like that of torchvision's RandomCrop.
          *out++ = normalised_[c][inside ? image[at] : 0];
        }
      }
  }
  const auto n = static_cast<std::int64_t>(picks.size());
  const auto c = static_cast<std::int64_t>(channels);
  return {torch::from_blob(pixels_.data(), {n, c, height, width}, {height * width * c, 1, width * c, c}),
          torch::from_blob(labels_.data(), {n}, torch::kInt64)};
}

}  // namespace signvote
