// Labelled images in memory, as bytes, and the two formats they come in: MNIST's IDX files and
// CIFAR-10's binary batches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace signvote {

/// `pixels` holds count() images, each channels x height x width bytes (planes, as in CIFAR-10).
struct LabelledImages {
  std::size_t channels = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;

  std::size_t count() const { return labels.size(); }
  std::size_t image_bytes() const { return channels * height * width; }
  std::span<const std::uint8_t> image(std::size_t i) const {
    return std::span(pixels).subspan(i * image_bytes(), image_bytes());
  }
};

struct Dataset {
  std::string name;  // "mnist" or "cifar10"
  std::size_t classes = 10;
  std::array<float, 3> mean{};       // per channel, of pixels scaled to [0, 1]
  std::array<float, 3> deviation{};
  bool augment = false;  // training images are cropped at random (4 pixels of padding) and mirrored
  LabelledImages train;
  LabelledImages test;
};

inline constexpr std::array<const char*, 2> kDatasetNames = {"mnist", "cifar10"};

/// Loads a data set from `folder`. Throws DataError with the file, what is wrong with it (missing,
/// truncated, not of this format, images and labels that disagree, a label out of range) and what
/// to do (`signvote data fetch NAME`); ConfigError for an unknown name.
Dataset load_dataset(const std::string& name, const std::filesystem::path& folder);

}  // namespace signvote
