#include "learn/own_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/files.h"
#include "learn/npy.h"
#include "learn/state_dict.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw DataError(fmt::format("'{}' {}", path.string(), what));
}

void check_finite(std::span<const float> numbers, std::size_t per_row, const fs::path& path) {
  const auto bad = std::ranges::find_if(numbers, [](float x) { return !std::isfinite(x); });
  if (bad != numbers.end())
    refuse(path,
           fmt::format("has {} in row {}", *bad, static_cast<std::size_t>(bad - numbers.begin()) / per_row));
}

/// An array is in one of two files, e.g. train_x.npy or train_x.pt. None if there is neither.
std::optional<fs::path> find_array(const fs::path& folder, const std::string& stem) {
  const fs::path npy = folder / (stem + ".npy"), pt = folder / (stem + ".pt");
  if (fs::exists(npy) && fs::exists(pt)) refuse(folder, fmt::format("has both {0}.npy and {0}.pt", stem));
  if (fs::exists(npy)) return npy;
  if (fs::exists(pt)) return pt;
  return std::nullopt;
}

fs::path array_path(const fs::path& folder, const std::string& stem) {
  const auto path = find_array(folder, stem);
  if (!path) refuse(folder, fmt::format("has no {0}.npy or {0}.pt", stem));
  return *path;
}

NpyArray tensor_as_array(const ArchiveEntries& entries) {
  const StoredTensor tensor = read_tensor(entries);
  if (tensor.shape.empty()) throw DataError("it has no dimensions; its first must be the number of samples");
  if (tensor.bytes.empty())
    throw DataError(fmt::format("it is empty: its shape is ({})", fmt::join(tensor.shape, ", ")));
  return {numpy_name_of(tensor.type), {tensor.shape.begin(), tensor.shape.end()}, tensor.bytes};
}

/// Calls `use` with the array in a file.
auto with_array(const fs::path& path, const auto& use) {
  std::vector<std::byte> file = read_file(path);
  ArchiveEntries entries;  // of a .pt file
  NpyArray array;
  try {
    if (path.extension() == ".pt") {
      entries = read_archive(std::exchange(file, {}));  // once in memory, not twice
      array = tensor_as_array(entries);
    }
  } catch (const DataError& error) {
    refuse(path,
           fmt::format("cannot be used: {}; write it with torch.save(x.contiguous(), FILE)", error.what()));
  }
  try {
    return use(entries.empty() ? read_npy(file) : array);
  } catch (const DataError& error) {
    refuse(path, error.what());
  }
}

/// "train" or "test" of a folder of arrays.
Samples load_arrays(const fs::path& folder, const std::string& part) {
  const fs::path x_path = array_path(folder, part + "_x"), y_path = array_path(folder, part + "_y");
  Samples samples;
  const std::size_t rows = with_array(x_path, [&](const NpyArray& array) {
    if (array.type == "|u1") {
      const auto* begin = reinterpret_cast<const std::uint8_t*>(array.data.data());
      samples.bytes.assign(begin, begin + array.data.size());
    } else if (array.type == "<f4") {
      samples.floats = floats(array);
    } else {
      throw DataError(fmt::format("is of the type '{}'; save x as uint8 or as float32", array.type));
    }
    samples.shape.assign(array.shape.begin() + 1, array.shape.end());
    return array.shape[0];
  });
  const std::size_t targets = with_array(y_path, [&](const NpyArray& array) {
    if (array.is_whole())
      samples.labels = whole_numbers(array);
    else
      samples.values = floats(array);
    samples.target_shape.assign(array.shape.begin() + 1, array.shape.end());
    return array.shape[0];
  });
  if (rows != targets)
    refuse(x_path, fmt::format("has {} rows, but '{}' has {}", rows, y_path.string(), targets));
  check_finite(samples.floats, elements_of(samples.shape), x_path);
  check_finite(samples.values, elements_of(samples.target_shape), y_path);
  return samples;
}

/// The one file in the folder whose name has both words and "idx"; none if there is no such file.
std::optional<fs::path> find_idx(const fs::path& folder, const std::string& part, const std::string& what) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (entry.is_regular_file() && name.find(part + "-" + what) != std::string::npos &&
        name.find("idx") != std::string::npos)
      found.push_back(entry.path());
  }
  if (found.size() > 1)
    refuse(folder, fmt::format("has more than one file of {}-{}, e.g. {} and {}", part, what,
                               found[0].filename().string(), found[1].filename().string()));
  if (found.empty()) return std::nullopt;
  return found[0];
}

struct Part {
  Samples samples;
  fs::path y_path;
};

Part load_idx(const fs::path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto x_path = find_idx(folder, name, "images"), y_path = find_idx(folder, name, "labels");
    if (!x_path || !y_path) continue;
    const std::vector<std::byte> x = read_file(*x_path), y = read_file(*y_path);
    Samples samples = parse_idx({*x_path, x}, {*y_path, y});
    check_finite(samples.floats, elements_of(samples.shape), *x_path);
    return {std::move(samples), *y_path};
  }
  refuse(folder, fmt::format("has no IDX files called {0}-images-idx... and {0}-labels-idx...",
                             fmt::join(names, " or ")));
}

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

void check_same_shape(const Dataset& dataset, const fs::path& path) {
  const Samples &train = dataset.train, &test = dataset.test;
  const auto text = [](const Shape& shape) { return fmt::format("({})", fmt::join(shape, ", ")); };
  if (train.shape != test.shape)
    refuse(path, fmt::format("has training samples of the shape {}, but test samples of {}",
                             text(train.shape), text(test.shape)));
  if (train.target_shape != test.target_shape)
    refuse(path, fmt::format("has a y of the shape {} to train with, but of {} to test with",
                             text(train.target_shape), text(test.target_shape)));
  if (train.bytes.empty() != test.bytes.empty() || train.labels.empty() != test.labels.empty())
    refuse(path, "has training and test samples of different types");
}

Dataset load_text(const fs::path& path, std::size_t context) {
  const std::vector<std::byte> file = read_file(path);
  const auto* begin = reinterpret_cast<const std::uint8_t*>(file.data());
  const std::size_t cut = file.size() - file.size() / 10;
  Dataset dataset;
  dataset.classes = 256;
  for (auto [samples, step] : {std::pair(&dataset.train, std::size_t{1}), {&dataset.test, context}}) {
    samples->shape = samples->target_shape = {context};
    samples->text_step = step;
  }
  dataset.train.bytes.assign(begin, begin + cut);
  dataset.test.bytes.assign(begin + cut, begin + file.size());
  if (dataset.test.count() == 0)
    refuse(path, fmt::format("has {} bytes, too few for --context {}: the last tenth is for testing and must "
                             "have more bytes than that",
                             file.size(), context));
  return dataset;
}

Dataset load_folder(const fs::path& path) {
  Dataset dataset;
  fs::path train_y, test_y;
  if (find_array(path, "train_x") || find_array(path, "train_y")) {
    dataset.train = load_arrays(path, "train");
    dataset.test = load_arrays(path, "test");
    train_y = array_path(path, "train_y");
    test_y = array_path(path, "test_y");
  } else if (fs::is_directory(path / "train")) {
    train_y = path / "train";
    test_y = path / "test";
    if (!fs::is_directory(test_y)) refuse(path, "has a folder train but no folder test");
    const std::vector<std::string> classes = folders_in(train_y);
    for (const std::string& name : folders_in(test_y))
      if (std::ranges::find(classes, name) == classes.end())
        refuse(test_y / name, fmt::format("is a class that '{}' does not have", train_y.string()));
    dataset.train = load_image_folder(train_y, classes);
    dataset.test = load_image_folder(test_y, classes);
  } else if (find_idx(path, "train", "images")) {
    Part train = load_idx(path, {"train"}), test = load_idx(path, {"t10k", "test"});
    dataset.train = std::move(train.samples);
    dataset.test = std::move(test.samples);
    train_y = train.y_path;
    test_y = test.y_path;
  } else {
    refuse(path,
           "holds no data set: put train_x.npy, train_y.npy, test_x.npy and test_y.npy there (or .pt), or "
           "images in train/CLASS and test/CLASS, or IDX files (train-images-idx...)");
  }
  check_same_shape(dataset, path);
  dataset.classes = count_classes(dataset.train, train_y, dataset.test, test_y);
  measure_normalisation(dataset);
  return dataset;
}

}  // namespace

std::size_t count_classes(const Samples& train, const fs::path& train_path, const Samples& test,
                          const fs::path& test_path) {
  if (train.labels.empty()) return 0;
  const std::size_t per_row = elements_of(train.target_shape);
  const auto check = [&](const Samples& samples, const fs::path& path, std::size_t classes,
                         const std::string& why) {
    const auto bad = std::ranges::find_if(samples.labels, [&](std::int64_t label) {
      return label < 0 || static_cast<std::uint64_t>(label) >= classes;
    });
    if (bad != samples.labels.end())
      refuse(path,
             fmt::format("has the label {} in row {}; {} 0 to {}", *bad,
                         static_cast<std::size_t>(bad - samples.labels.begin()) / per_row, why, classes - 1));
  };
  check(train, train_path, kMostClasses, "labels are");
  const std::size_t classes = static_cast<std::size_t>(*std::ranges::max_element(train.labels)) + 1;
  check(test, test_path, classes, "those to train with are");
  return classes;
}

void measure_normalisation(Dataset& dataset) {
  const Samples& train = dataset.train;
  if (train.bytes.empty() || dataset.is_text()) return;
  const std::size_t channels = train.shape.size() == 3 ? train.shape[0] : 1;
  const std::size_t plane = elements_of(train.shape) / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    std::array<std::uint64_t, 256> counts{};  // of whole numbers, so that every machine finds the same
    for (std::size_t i = 0; i < train.count(); ++i)
      for (const std::uint8_t byte : train.bytes_of(i).subspan(c * plane, plane)) ++counts[byte];
    const auto total = static_cast<double>(train.count() * plane);
    double mean = 0, variance = 0;
    for (std::size_t byte = 0; byte < 256; ++byte)
      mean += static_cast<double>(byte) / 255 * static_cast<double>(counts[byte]) / total;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const double off = static_cast<double>(byte) / 255 - mean;
      variance += off * off * static_cast<double>(counts[byte]) / total;
    }
    dataset.mean.push_back(static_cast<float>(mean));
    // A channel that is the same everywhere becomes zero.
    dataset.deviation.push_back(variance > 0 ? static_cast<float>(std::sqrt(variance)) : 1.0F);
  }
}

Dataset load_own_dataset(const std::string& name, const fs::path& path, std::size_t context) {
  try {
    if (!fs::exists(path)) refuse(path, "is not there");
    if (!fs::is_directory(path) && context == 0) refuse(path, "is not a folder, as this data set is");
    Dataset dataset = fs::is_directory(path) ? load_folder(path) : load_text(path, context);
    for (const Samples* samples : {&dataset.train, &dataset.test})
      if (samples->count() > UINT32_MAX) refuse(path, "has more than 4294967295 samples");
    dataset.name = name;
    return dataset;
  } catch (const DataError& error) {
    throw DataError(fmt::format("cannot load the data set {}: {}", name, error.what()));
  } catch (const fs::filesystem_error& error) {
    throw DataError(fmt::format("cannot load the data set {}: '{}': {}", name, error.path1().string(),
                                error.code().message()));
  }
}

}  // namespace signvote
