// Labelled images in memory as bytes, and the two file formats that they come in: MNIST's IDX files and
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

/// `pixels` holds count() images of channels x height x width bytes each (one plane per channel).
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
  std::array<float, 3> mean{};  // per channel, of pixels scaled to [0, 1]
  std::array<float, 3> deviation{};
  bool augment = false;  // training images are cropped at random (4 pixels of padding) and mirrored
  LabelledImages train;
  LabelledImages test;
};

inline constexpr std::array<const char*, 2> kDatasetNames = {"mnist", "cifar10"};
inline constexpr std::array<const char*, 4> kMnistFiles = {
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
inline constexpr std::array<const char*, 6> kCifar10Files = {"data_batch_1.bin", "data_batch_2.bin",
                                                             "data_batch_3.bin", "data_batch_4.bin",
                                                             "data_batch_5.bin", "test_batch.bin"};
inline constexpr const char* kCifar10Folder = "cifar-10-batches-bin";  // its name in the official archive

/// Where `signvote data fetch` puts a data set: $XDG_CACHE_HOME/signvote/NAME, or ~/.cache/signvote/NAME.
/// Throws ConfigError if neither is known.
std::filesystem::path dataset_cache_folder(const std::string& name);

/// Loads a data set from `folder`. Throws DataError that says which file is wrong, how (missing, truncated,
/// another format, images and labels that disagree, a label out of range) and what to do (`signvote data
/// fetch NAME`), and ConfigError for an unknown name.
Dataset load_dataset(const std::string& name, const std::filesystem::path& folder);

// The following parse bytes, which may be anything: they check all of them and throw DataError that names
// the file by `path`.

/// A pair of IDX files. The images are 28 x 28, and there are as many as labels, at least one.
struct NamedBytes {
  std::filesystem::path path;
  std::span<const std::byte> bytes;
};
LabelledImages parse_mnist(const NamedBytes& images, const NamedBytes& labels);

/// Appends a CIFAR-10 batch of at least one image to `images`, which is unchanged if this throws.
void append_cifar10_batch(const NamedBytes& batch, LabelledImages& images);

/// The file in `folder` called `name`, or with a dot before "idx" (some copies of MNIST have
/// train-images.idx3-ubyte); empty if there is none.
std::filesystem::path find_data_file(const std::filesystem::path& folder, const std::string& name);

}  // namespace signvote
