#include "learn/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/files.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kClasses = 10;
constexpr std::size_t kMnistSide = 28;
constexpr std::size_t kCifarSide = 32;
constexpr std::size_t kCifarPixels = 3 * kCifarSide * kCifarSide;
constexpr std::size_t kCifarRecord = 1 + kCifarPixels;  // the label, then the red, green and blue planes

// IDX has two zero bytes, the type of an entry (8: a byte) and the number of dimensions, then each
// dimension as a big-endian uint32, then the entries.
constexpr std::uint32_t kIdxImages = 0x00000803;
constexpr std::uint32_t kIdxLabels = 0x00000801;

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

// The entries of an IDX file with this `magic`. Its first dimension is their number, and the others must be
// `item`.
std::span<const std::byte> idx_entries(const NamedBytes& file, std::uint32_t magic,
                                       std::span<const std::size_t> item) {
  const bool images = magic == kIdxImages;
  const std::size_t header = 4 * (2 + item.size());
  if (file.bytes.size() >= 4 && big_endian(file.bytes, 0) != magic) {
    const std::uint32_t found = big_endian(file.bytes, 0);
    if (found == (images ? kIdxLabels : kIdxImages))
      refuse(file.path, images ? "is a label file where an image file was expected"
                               : "is an image file where a label file was expected");
    refuse(file.path, fmt::format("is not an IDX file of {}: it begins with {:08x}, not {:08x}",
                                  images ? "images" : "labels", found, magic));
  }
  if (file.bytes.size() < header)
    refuse(file.path,
           fmt::format("is truncated: {} bytes, and its header has {}", file.bytes.size(), header));
  std::uint64_t expected = big_endian(file.bytes, 1);  // cannot overflow, because it is below 2^32 * 28 * 28
  if (expected == 0) refuse(file.path, "is empty: its header says 0 entries");
  for (std::size_t i = 0; i < item.size(); ++i) {
    if (big_endian(file.bytes, 2 + i) != item[i])
      refuse(file.path, fmt::format("has images of {} x {} pixels, not {} x {}", big_endian(file.bytes, 2),
                                    big_endian(file.bytes, 3), item[0], item[1]));
    expected *= item[i];
  }
  check_length(file, header + expected);
  return file.bytes.subspan(header);
}

std::uint8_t checked_label(std::byte byte, const fs::path& path, std::size_t index) {
  const auto label = std::to_integer<std::uint8_t>(byte);
  if (label >= kClasses)
    refuse(path, fmt::format("has the label {} at image {}; labels are 0 to 9", label, index));
  return label;
}

void append_pixels(std::span<const std::byte> bytes, std::vector<std::uint8_t>& pixels) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  pixels.insert(pixels.end(), begin, begin + bytes.size());
}

LabelledImages load_mnist(const fs::path& folder, const std::string& images, const std::string& labels) {
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

LabelledImages load_cifar10(const fs::path& folder, std::span<const char* const> files) {
  const fs::path inner = folder / kCifar10Folder;
  const fs::path batches = fs::is_directory(inner) ? inner : folder;
  LabelledImages images;
  for (const char* file : files) {
    const fs::path path = batches / file;
    if (!fs::exists(path)) refuse(batches, fmt::format("has no {}", file));
    const std::vector<std::byte> bytes = read_file(path);
    append_cifar10_batch({path, bytes}, images);
  }
  return images;
}

}  // namespace

LabelledImages parse_mnist(const NamedBytes& images, const NamedBytes& labels) {
  constexpr std::array<std::size_t, 2> kShape = {kMnistSide, kMnistSide};
  const std::span<const std::byte> pixels = idx_entries(images, kIdxImages, kShape);
  const std::span<const std::byte> classes = idx_entries(labels, kIdxLabels, {});
  if (pixels.size() / (kMnistSide * kMnistSide) != classes.size())
    refuse(images.path,
           fmt::format("has {} images, but '{}' has {} labels", pixels.size() / (kMnistSide * kMnistSide),
                       labels.path.string(), classes.size()));
  LabelledImages parsed{.channels = 1, .height = kMnistSide, .width = kMnistSide, .pixels = {}, .labels = {}};
  for (std::size_t i = 0; i < classes.size(); ++i)
    parsed.labels.push_back(checked_label(classes[i], labels.path, i));
  append_pixels(pixels, parsed.pixels);
  return parsed;
}

void append_cifar10_batch(const NamedBytes& batch, LabelledImages& images) {
  const std::size_t count = batch.bytes.size() / kCifarRecord;
  if (count == 0 || batch.bytes.size() % kCifarRecord != 0)
    refuse(batch.path, fmt::format("is truncated or no CIFAR-10 batch: {} bytes, not a multiple of {}",
                                   batch.bytes.size(), kCifarRecord));
  const auto record = [&](std::size_t i) { return batch.bytes.subspan(i * kCifarRecord, kCifarRecord); };
  for (std::size_t i = 0; i < count; ++i) checked_label(record(i)[0], batch.path, i);
  images.channels = 3;
  images.height = images.width = kCifarSide;
  images.pixels.reserve(images.pixels.size() + count * kCifarPixels);
  for (std::size_t i = 0; i < count; ++i) {
    images.labels.push_back(std::to_integer<std::uint8_t>(record(i)[0]));
    append_pixels(record(i).subspan(1), images.pixels);
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

Dataset load_dataset(const std::string& name, const fs::path& folder) {
  if (std::ranges::find(kDatasetNames, name) == kDatasetNames.end())
    throw ConfigError(
        fmt::format("there is no data set '{}': choose {}", name, fmt::join(kDatasetNames, " or ")));
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
        fmt::format("cannot load {}: {}; `signvote data fetch {}` fetches it", name, error.what(), name));
  } catch (const fs::filesystem_error& error) {
    throw DataError(
        fmt::format("cannot load {} from '{}': {}", name, folder.string(), error.code().message()));
  }
}

}  // namespace signvote
