// Samples in memory, and the data sets that they come from: MNIST and CIFAR-10 by name, and anybody's own
// (own_dataset.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace signvote {

using Shape = std::vector<std::size_t>;
inline std::size_t elements_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies{});
}

/// Pairs of x, what the network sees, and y, what it should say.
struct Samples {
  Shape shape{};                      // of one x; an image is channels x height x width
  std::vector<std::uint8_t> bytes{};  // every x after the other, in one of these two
  std::vector<float> floats{};
  Shape target_shape{};                // of one y; {}: a single number
  std::vector<std::int64_t> labels{};  // every y after the other, in one of these two
  std::vector<float> values{};
  /// If > 0, `bytes` is a text: x number i begins at byte i * text_step, and y is the same one byte further.
  std::size_t text_step = 0;

  std::size_t count() const {
    const std::size_t size = elements_of(shape);
    if (text_step > 0) return bytes.size() <= size ? 0 : (bytes.size() - size - 1) / text_step + 1;
    return (labels.empty() ? values.size() : labels.size()) / elements_of(target_shape);
  }
  /// The bytes of x number i. REQUIRES: they are bytes.
  std::span<const std::uint8_t> bytes_of(std::size_t i) const {
    const std::size_t size = elements_of(shape);
    return std::span(bytes).subspan(i * (text_step > 0 ? text_step : size), size);
  }
  /// One class for each sample, by which samples can be dealt out; empty if y is something else.
  std::span<const std::int64_t> classes() const {
    return target_shape.empty() ? std::span(labels) : std::span<const std::int64_t>();
  }
};

struct Dataset {
  std::string name{};
  std::size_t classes = 0;         // y is from 0 to classes - 1; 0: y is not a class
  std::vector<float> mean{};       // per channel, of bytes scaled to [0, 1]; empty if x is not normalised
  std::vector<float> deviation{};  // because it is floats or a text
  bool augment = false;            // training images are cropped at random (4 pixels of padding) and mirrored
  Samples train{};
  Samples test{};

  bool is_text() const { return train.text_step > 0; }
};

inline constexpr std::array<const char*, 2> kDatasetNames = {"mnist", "cifar10"};
inline constexpr std::array<const char*, 4> kMnistFiles = {
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
inline constexpr std::array<const char*, 6> kCifar10Files = {"data_batch_1.bin", "data_batch_2.bin",
                                                             "data_batch_3.bin", "data_batch_4.bin",
                                                             "data_batch_5.bin", "test_batch.bin"};
inline constexpr const char* kCifar10Folder = "cifar-10-batches-bin";  // its name in the official archive

/// True if it is the name of a data set that `signvote data fetch` knows. Any other is somebody's own.
bool is_dataset_name(const std::string& name);

/// Where `signvote data fetch` puts a data set: $XDG_CACHE_HOME/signvote/NAME, or ~/.cache/signvote/NAME.
/// Throws ConfigError if neither is known.
std::filesystem::path dataset_cache_folder(const std::string& name);

/// Loads MNIST or CIFAR-10 from a folder, or somebody's own data set (see own_dataset.h), which may be a text
/// cut into samples of `context` bytes. Throws DataError that says which file is wrong, how (missing,
/// truncated, another format, x and y that disagree, a label out of range) and what to do.
Dataset load_dataset(const std::string& name, const std::filesystem::path& path, std::size_t context = 0);

// The following parse bytes, which may be anything: they check all of them and throw DataError that names
// the file by `path`.

struct NamedBytes {
  std::filesystem::path path;
  std::span<const std::byte> bytes;
};

/// A pair of IDX files. The images are 28 x 28, and there are as many as labels, at least one.
Samples parse_mnist(const NamedBytes& images, const NamedBytes& labels);

/// A pair of IDX files of any shape: x of bytes or of float32, y of bytes or of int32. Images of one plane
/// become images of one channel.
Samples parse_idx(const NamedBytes& x, const NamedBytes& y);

/// Appends a CIFAR-10 batch of at least one image to `images`, which is unchanged if this throws.
void append_cifar10_batch(const NamedBytes& batch, Samples& images);

/// The file in `folder` called `name`, or with a dot before "idx" (some copies of MNIST have
/// train-images.idx3-ubyte); empty if there is none.
std::filesystem::path find_data_file(const std::filesystem::path& folder, const std::string& name);

}  // namespace signvote
