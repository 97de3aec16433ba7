// A user's own data sets: how classes are counted, bytes normalised, texts and IDX files of any shape cut
// into samples. What needs files is in tests/cli/own_model_test.py.
#include "learn/own_dataset.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <turbojpeg.h>

#include <array>
#include <cmath>
#include <fstream>

#include "signvote/error.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

std::vector<std::byte> idx(std::uint32_t magic, const std::vector<std::uint32_t>& shape,
                           std::size_t content) {
  std::vector<std::byte> bytes;
  const auto put = [&bytes](std::uint32_t word) {
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<std::byte>(word >> shift & 0xFF));
  };
  put(magic);
  for (const std::uint32_t size : shape) put(size);
  for (std::size_t i = 0; i < content; ++i) bytes.push_back(static_cast<std::byte>(i & 0xFF));
  return bytes;
}

TEST(OwnDataset, idx_files_of_any_shape) {
  const auto labels = idx(0x801, {2}, 2);
  const NamedBytes y{"y", labels};
  const auto planes = idx(0x803, {2, 3, 4}, 24), colours = idx(0x804, {2, 3, 2, 2}, 24),
             floats = idx(0xD02, {2, 3}, 24);
  EXPECT_EQ(parse_idx({"x", planes}, y).shape, (Shape{1, 3, 4}));
  EXPECT_EQ(parse_idx({"x", colours}, y).shape, (Shape{3, 2, 2}));
  const Samples numbers = parse_idx({"x", floats}, y);
  EXPECT_EQ(numbers.shape, Shape{3});
  EXPECT_EQ(numbers.floats.size(), 6U);
  EXPECT_EQ(numbers.count(), 2U);
  for (const auto& bad : {idx(0x803, {3, 2, 4}, 24), idx(0x803, {2, 3, 4}, 23), idx(0x803, {2, 0, 4}, 0),
                          idx(0x903, {2, 3, 4}, 24), idx(0x80F, {2}, 2), idx(0xC03, {2, 3, 1}, 24)})
    EXPECT_THROW(parse_idx({"x", bad}, y), DataError);
}

/// An image of one colour as JPEG; of one channel if it has one.
std::string jpeg(int width, int height, const std::vector<unsigned char>& pixel) {
  std::vector<unsigned char> pixels;
  for (int i = 0; i < width * height; ++i) pixels.insert(pixels.end(), pixel.begin(), pixel.end());
  const bool gray = pixel.size() == 1;
  const tjhandle encoder = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(0, tjCompress2(encoder, pixels.data(), width, 0, height, gray ? TJPF_GRAY : TJPF_RGB, &bytes,
                           &size, gray ? TJSAMP_GRAY : TJSAMP_420, 95, 0));
  std::string file(reinterpret_cast<const char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(encoder);
  return file;
}

TEST(OwnDataset, a_folder_of_jpeg_images) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const std::string& file) {
    const auto path = folder.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << file;
  };
  write("dark/b.jpg", jpeg(20, 17, {30, 60, 90}));
  write("dark/a.JPEG", jpeg(20, 17, {10, 0, 5}));
  write("dark/notes.txt", "no image");
  write("light/a.jpg", jpeg(20, 17, {250, 200, 150}));
  const Samples samples = load_image_folder(folder.path(), {"dark", "light"});
  EXPECT_EQ(samples.shape, (Shape{3, 17, 20}));
  EXPECT_EQ(samples.labels, (std::vector<std::int64_t>{0, 0, 1}));
  const std::array<std::array<int, 3>, 3> colours = {{{10, 0, 5}, {30, 60, 90}, {250, 200, 150}}};
  ASSERT_EQ(samples.bytes.size(), 3U * 3 * 17 * 20);
  for (std::size_t i = 0; i < samples.bytes.size(); ++i)  // JPEG keeps colours nearly
    EXPECT_NEAR(samples.bytes[i], colours[i / (3 * 17 * 20)][i / (17 * 20) % 3], 3) << i;

  const auto refuses = [&](const std::string& file, const std::string& what) {
    write("light/z.jpg", file);
    try {
      load_image_folder(folder.path(), {"dark", "light"});
      FAIL() << what;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find("light/z.jpg' " + what), std::string::npos) << error.what();
    }
  };
  refuses(jpeg(20, 17, {7}), "has 1 channels of 17 x 20 pixels");
  refuses(jpeg(21, 17, {7, 7, 7}), "has 3 channels of 17 x 21 pixels");
  const std::string whole = jpeg(20, 17, {7, 7, 7});
  refuses(whole.substr(0, whole.size() - 9), "is damaged");
  refuses("no JPEG", "is damaged");
}

TEST(OwnDataset, labels_are_counted_and_checked) {
  Samples train, test;
  train.labels = {0, 2, 1};
  test.labels = {2, 0};
  EXPECT_EQ(count_classes(train, "a", test, "b"), 3U);
  test.labels = {3};
  EXPECT_THROW(count_classes(train, "a", test, "b"), DataError);
  test.labels = {0};
  for (const std::int64_t label : {std::int64_t{-1}, std::int64_t{1} << 40}) {
    train.labels[1] = label;
    try {
      count_classes(train, "train_y.npy", test, "b");
      FAIL() << label;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find("in row 1"), std::string::npos) << error.what();
    }
  }
}

TEST(OwnDataset, normalisation_is_that_of_each_channel) {
  EXPECT_TRUE(rc::check("mean and deviation", [] {
    Dataset dataset;
    const auto channels = *rc::gen::inRange<std::size_t>(1, 4), count = *rc::gen::inRange<std::size_t>(1, 6);
    dataset.train.shape = {channels, 2, 3};
    dataset.train.labels.resize(count);
    for (std::size_t i = 0; i < 6 * channels * count; ++i)
      dataset.train.bytes.push_back(*rc::gen::arbitrary<std::uint8_t>());
    measure_normalisation(dataset);
    RC_ASSERT(dataset.mean.size() == channels);
    for (std::size_t c = 0; c < channels; ++c) {
      double sum = 0, squares = 0;
      for (std::size_t i = 0; i < count; ++i)
        for (const std::uint8_t byte : dataset.train.bytes_of(i).subspan(6 * c, 6)) {
          sum += byte / 255.0;
          squares += byte / 255.0 * (byte / 255.0);
        }
      const double n = 6.0 * static_cast<double>(count), mean = sum / n;
      const double deviation = std::sqrt(std::max(0.0, squares / n - mean * mean));
      RC_ASSERT(std::abs(dataset.mean[c] - mean) < 1e-5);
      RC_ASSERT(deviation < 1e-3 || std::abs(dataset.deviation[c] - deviation) < 1e-5);
    }
  }));
}

TEST(OwnDataset, a_text_is_cut_into_windows) {
  EXPECT_TRUE(rc::check("every window and the byte after it lie within the text", [] {
    Samples text;
    text.shape = text.target_shape = {*rc::gen::inRange<std::size_t>(1, 9)};
    text.text_step = *rc::gen::inRange<std::size_t>(1, 9);
    text.bytes.resize(*rc::gen::inRange<std::size_t>(0, 60));
    const std::size_t length = text.shape[0], count = text.count();
    if (count > 0) RC_ASSERT((count - 1) * text.text_step + length + 1 <= text.bytes.size());
    RC_ASSERT(count * text.text_step + length + 1 > text.bytes.size());  // and none is left out
  }));
}

}  // namespace
}  // namespace signvote
