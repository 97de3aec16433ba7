#include "learn/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/files.h"
#include "learn/own_dataset.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kClasses = 10;
constexpr std::size_t kMnistSide = 28;
constexpr std::size_t kCifarSide = 32;
constexpr std::size_t kCifarPixels = 3 * kCifarSide * kCifarSide;
constexpr std::size_t kCifarRecord = 1 + kCifarPixels;  // the label, then the red, green and blue planes

// IDX has two zero bytes, the type of an entry and the number of dimensions, then each dimension as a
// big-endian uint32, then the entries, also big-endian.
constexpr std::uint32_t kIdxImages = 0x00000803;
constexpr std::uint32_t kIdxLabels = 0x00000801;
constexpr unsigned kIdxByte = 0x08, kIdxInt = 0x0C, kIdxFloat = 0x0D;

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw DataError(fmt::format("'{}' {}", path.string(), what));
}

std::uint32_t big_endian(std::span<const std::byte> bytes, std::size_t word) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes.subspan(4 * word, 4))
    value = value << 8 | std::to_integer<std::uint32_t>(byte);
  return value;
}

void check_length(const NamedBytes& file, std::uint64_t expected) {
  if (file.bytes.size() < expected)
    refuse(file.path, fmt::format("is truncated: {} bytes of {}", file.bytes.size(), expected));
  if (file.bytes.size() > expected)
    refuse(file.path,
           fmt::format("is too long: {} bytes where its header says {}", file.bytes.size(), expected));
}

struct IdxArray {
  unsigned type = 0;
  Shape shape{};
  std::span<const std::byte> entries{};
};

IdxArray read_idx(const NamedBytes& file) {
  if (file.bytes.size() < 4) refuse(file.path, fmt::format("is truncated: {} bytes", file.bytes.size()));
  const std::uint32_t magic = big_endian(file.bytes, 0);
  IdxArray array;
  array.type = magic >> 8;
  const std::size_t dimensions = magic & 0xFF;
  if (array.type != kIdxByte && array.type != kIdxInt && array.type != kIdxFloat)
    refuse(file.path,
           fmt::format("is not an IDX file of bytes, int32 or float32: it begins with {:08x}", magic));
  if (dimensions < 1 || dimensions > 8)
    refuse(file.path, fmt::format("has {} dimensions; 1 to 8 can be used", dimensions));
  const std::size_t header = 4 * (1 + dimensions);
  if (file.bytes.size() < header)
    refuse(file.path,
           fmt::format("is truncated: {} bytes, and its header has {}", file.bytes.size(), header));
  std::uint64_t expected = array.type == kIdxByte ? 1 : 4;
  for (std::size_t i = 0; i < dimensions; ++i) {
    array.shape.push_back(big_endian(file.bytes, 1 + i));
    if (array.shape.back() == 0)
      refuse(file.path, i == 0 ? "is empty: its header says 0 entries" : "has entries of no elements");
    if (expected > UINT64_MAX / 2 / array.shape.back()) refuse(file.path, "has a header that is too large");
    expected *= array.shape.back();
  }
  check_length(file, header + expected);
  array.entries = file.bytes.subspan(header);
  return array;
}

/// Refuses what is no IDX file of this kind, in the words of MNIST.
void check_magic(const NamedBytes& file, std::uint32_t magic) {
  if (file.bytes.size() < 4 || big_endian(file.bytes, 0) == magic) return;
  const std::uint32_t found = big_endian(file.bytes, 0);
  const bool images = magic == kIdxImages;
  if (found == (images ? kIdxLabels : kIdxImages))
    refuse(file.path, images ? "is a label file where an image file was expected"
                             : "is an image file where a label file was expected");
  refuse(file.path, fmt::format("is not an IDX file of {}: it begins with {:08x}, not {:08x}",
                                images ? "images" : "labels", found, magic));
}

std::int64_t checked_label(std::byte byte, const fs::path& path, std::size_t index) {
  const auto label = std::to_integer<std::int64_t>(byte);
  if (label >= static_cast<std::int64_t>(kClasses))
    refuse(path, fmt::format("has the label {} at image {}; labels are 0 to 9", label, index));
  return label;
}

void append_bytes(std::span<const std::byte> from, std::vector<std::uint8_t>& bytes) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(from.data());
  bytes.insert(bytes.end(), begin, begin + from.size());
}

Samples load_mnist(const fs::path& folder, const std::string& images, const std::string& labels) {
  const auto path_of = [&](const std::string& name) {
    const fs::path path = find_data_file(folder, name);
    if (path.empty()) refuse(folder, "has no " + name);
    return path;
  };
  const fs::path images_path = path_of(images);
  const fs::path labels_path = path_of(labels);
  const std::vector<std::byte> image_bytes = read_file(images_path);
  const std::vector<std::byte> label_bytes = read_file(labels_path);
  return parse_mnist({images_path, image_bytes}, {labels_path, label_bytes});
}

Samples load_cifar10(const fs::path& folder, std::span<const char* const> files) {
  const fs::path inner = folder / kCifar10Folder;
  const fs::path batches = fs::is_directory(inner) ? inner : folder;
  Samples images;
  for (const char* file : files) {
    const fs::path path = batches / file;
    if (!fs::exists(path)) refuse(batches, fmt::format("has no {}", file));
    const std::vector<std::byte> bytes = read_file(path);
    append_cifar10_batch({path, bytes}, images);
  }
  return images;
}

}  // namespace

Samples parse_mnist(const NamedBytes& images, const NamedBytes& labels) {
  check_magic(images, kIdxImages);
  check_magic(labels, kIdxLabels);
  if (images.bytes.size() >= 16)
    if (const auto height = big_endian(images.bytes, 2), width = big_endian(images.bytes, 3);
        height != kMnistSide || width != kMnistSide)
      refuse(images.path,
             fmt::format("has images of {} x {} pixels, not {} x {}", height, width, kMnistSide, kMnistSide));
  Samples parsed = parse_idx(images, labels);
  for (std::size_t i = 0; i < parsed.labels.size(); ++i)
    checked_label(static_cast<std::byte>(parsed.labels[i]), labels.path, i);
  return parsed;
}

Samples parse_idx(const NamedBytes& x, const NamedBytes& y) {
  const IdxArray inputs = read_idx(x);
  const IdxArray targets = read_idx(y);
  if (inputs.type == kIdxInt) refuse(x.path, "is of int32; images must be of bytes or float32");
  if (targets.type == kIdxFloat) refuse(y.path, "is of float32; labels must be of bytes or int32");
  if (inputs.shape[0] != targets.shape[0])
    refuse(x.path, fmt::format("has {} images, but '{}' has {} labels", inputs.shape[0], y.path.string(),
                               targets.shape[0]));
  Samples parsed;
  parsed.shape.assign(inputs.shape.begin() + 1, inputs.shape.end());
  if (parsed.shape.size() == 2) parsed.shape.insert(parsed.shape.begin(), 1);  // an image of one channel
  parsed.target_shape.assign(targets.shape.begin() + 1, targets.shape.end());
  if (inputs.type == kIdxByte) append_bytes(inputs.entries, parsed.bytes);
  for (std::size_t i = 0; inputs.type == kIdxFloat && i < inputs.entries.size() / 4; ++i)
    parsed.floats.push_back(std::bit_cast<float>(big_endian(inputs.entries, i)));
  for (std::size_t i = 0; i < elements_of(targets.shape); ++i)
    parsed.labels.push_back(targets.type == kIdxByte
                                ? std::to_integer<std::int64_t>(targets.entries[i])
                                : static_cast<std::int32_t>(big_endian(targets.entries, i)));
  return parsed;
}

void append_cifar10_batch(const NamedBytes& batch, Samples& images) {
  const std::size_t count = batch.bytes.size() / kCifarRecord;
  if (count == 0 || batch.bytes.size() % kCifarRecord != 0)
    refuse(batch.path, fmt::format("is truncated or no CIFAR-10 batch: {} bytes, not a multiple of {}",
                                   batch.bytes.size(), kCifarRecord));
  const auto record = [&](std::size_t i) { return batch.bytes.subspan(i * kCifarRecord, kCifarRecord); };
  for (std::size_t i = 0; i < count; ++i) checked_label(record(i)[0], batch.path, i);
  images.shape = {3, kCifarSide, kCifarSide};
  images.bytes.reserve(images.bytes.size() + count * kCifarPixels);
  for (std::size_t i = 0; i < count; ++i) {
    images.labels.push_back(std::to_integer<std::int64_t>(record(i)[0]));
    append_bytes(record(i).subspan(1), images.bytes);
  }
}

fs::path find_data_file(const fs::path& folder, const std::string& name) {
  std::string dotted = name;
  if (const std::size_t at = name.find("-idx"); at != std::string::npos) dotted[at] = '.';
  for (const std::string& spelling : {name, dotted})
    if (fs::is_regular_file(folder / spelling)) return folder / spelling;
  return {};
}

fs::path dataset_cache_folder(const std::string& name) {
  // The XDG specification says that a relative path must be ignored.
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && fs::path(cache).is_absolute())
    return fs::path(cache) / "signvote" / name;
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0')
    throw ConfigError("there is no cache folder: set HOME or XDG_CACHE_HOME");
  return fs::path(home) / ".cache" / "signvote" / name;
}

bool is_dataset_name(const std::string& name) {
  return std::ranges::find(kDatasetNames, name) != kDatasetNames.end();
}

Dataset load_dataset(const std::string& name, const fs::path& folder, std::size_t context) {
  if (!is_dataset_name(name)) return load_own_dataset(name, folder, context);
  try {
    if (!fs::is_directory(folder)) throw DataError(fmt::format("'{}' is not a folder", folder.string()));
    Dataset dataset;
    dataset.name = name;
    dataset.classes = kClasses;
    if (name == "mnist") {
      dataset.mean = {0.1307F};
      dataset.deviation = {0.3081F};
      dataset.train = load_mnist(folder, kMnistFiles[0], kMnistFiles[1]);
      dataset.test = load_mnist(folder, kMnistFiles[2], kMnistFiles[3]);
    } else {
      dataset.mean = {0.4914F, 0.4822F, 0.4465F};
      dataset.deviation = {0.2470F, 0.2435F, 0.2616F};
      dataset.augment = true;
      dataset.train = load_cifar10(folder, std::span(kCifar10Files).first<5>());
      dataset.test = load_cifar10(folder, std::span(kCifar10Files).last<1>());
    }
    return dataset;
  } catch (const DataError& error) {
    throw DataError(
        fmt::format("cannot load {0}: {1}; `signvote data fetch {0}` fetches {0}; for data of your own, "
                    "give the folder as --dataset",
                    name, error.what()));
  } catch (const fs::filesystem_error& error) {
    throw DataError(
        fmt::format("cannot load {} from '{}': {}", name, folder.string(), error.code().message()));
  }
}

}  // namespace signvote
