// The data set formats, on generated files: what is written is read back, and nothing else is read.
#include "learn/dataset.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <stdlib.h>

#include "base/files.h"
#include "signvote/error.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kMnistPixels = 28 * 28;
constexpr std::size_t kCifarRecord = 3073;

Bytes idx(const std::vector<std::uint32_t>& header, std::span<const std::uint8_t> content) {
  Bytes bytes;
  for (const std::uint32_t word : header)
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::byte>(word >> shift));
  for (const std::uint8_t byte : content) bytes.push_back(static_cast<std::byte>(byte));
  return bytes;
}

Bytes idx_images(const Samples& images) {
  return idx({0x803, static_cast<std::uint32_t>(images.count()), 28, 28}, images.bytes);
}

Bytes idx_labels(const Samples& images) {
  return idx({0x801, static_cast<std::uint32_t>(images.count())},
             std::vector<std::uint8_t>(images.labels.begin(), images.labels.end()));
}

Bytes cifar10_batch(const Samples& images) {
  Bytes bytes;
  for (std::size_t i = 0; i < images.count(); ++i) {
    bytes.push_back(static_cast<std::byte>(images.labels[i]));
    for (const std::uint8_t pixel : images.bytes_of(i)) bytes.push_back(static_cast<std::byte>(pixel));
  }
  return bytes;
}

// Pixels from one random number each image: rapidcheck need not shrink pictures.
Samples arbitrary_images(std::size_t channels, std::size_t side) {
  Samples images{.shape = {channels, side, side}, .bytes = {}, .labels = {}};
  const auto count = *rc::gen::inRange<std::size_t>(1, 6);
  for (std::size_t i = 0; i < count; ++i) {
    images.labels.push_back(*rc::gen::inRange<std::int64_t>(0, 10));
    auto state = *rc::gen::arbitrary<std::uint32_t>();
    for (std::size_t p = 0; p < elements_of(images.shape); ++p) {
      state = state * 1664525 + 1013904223;
      images.bytes.push_back(static_cast<std::uint8_t>(state >> 24));
    }
  }
  return images;
}

Samples mnist_images() { return arbitrary_images(1, 28); }
Samples cifar10_images() { return arbitrary_images(3, 32); }

bool same(const Samples& a, const Samples& b) {
  return a.shape == b.shape && a.bytes == b.bytes && a.labels == b.labels;
}

Samples parse(const Bytes& images, const Bytes& labels) {
  return parse_mnist({"the-images", images}, {"the-labels", labels});
}

// The error of a call that must refuse its input.
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Dataset, mnist_round_trip) {
  EXPECT_TRUE(rc::check("what is written as IDX is parsed back", [] {
    const Samples images = mnist_images();
    RC_ASSERT(same(parse(idx_images(images), idx_labels(images)), images));
  }));
}

TEST(Dataset, cifar10_round_trip) {
  EXPECT_TRUE(rc::check("batches are parsed back, one after the other", [] {
    const Samples first = cifar10_images();
    const Samples second = cifar10_images();
    Samples parsed;
    append_cifar10_batch({"first", cifar10_batch(first)}, parsed);
    RC_ASSERT(same(parsed, first));
    append_cifar10_batch({"second", cifar10_batch(second)}, parsed);
    Samples both = first;
    both.bytes.insert(both.bytes.end(), second.bytes.begin(), second.bytes.end());
    both.labels.insert(both.labels.end(), second.labels.begin(), second.labels.end());
    RC_ASSERT(same(parsed, both));
  }));
}

TEST(Dataset, every_truncation_is_refused) {
  Samples images{.shape = {1, 28, 28}, .bytes = {}, .labels = {3, 9}};
  images.bytes.assign(2 * kMnistPixels, 7);
  const Bytes pixels = idx_images(images);
  const Bytes labels = idx_labels(images);
  for (std::size_t size = 0; size < pixels.size(); ++size) {
    const Bytes cut(pixels.begin(), pixels.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(refusal([&] { parse(cut, labels); }).find("'the-images' is truncated: "), std::string::npos)
        << size;
  }
  for (std::size_t size = 0; size < labels.size(); ++size) {
    const Bytes cut(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(refusal([&] { parse(pixels, cut); }).find("'the-labels' is truncated: "), std::string::npos)
        << size;
  }
  const Bytes batch(2 * kCifarRecord);
  for (std::size_t size = 0; size < batch.size(); ++size) {
    if (size == kCifarRecord) continue;  // one whole image
    Samples parsed;
    EXPECT_THROW(append_cifar10_batch({"batch", std::span(batch).first(size)}, parsed), DataError) << size;
    EXPECT_EQ(parsed.count(), 0U);
  }
}

TEST(Dataset, a_byte_too_many_is_refused) {
  EXPECT_TRUE(rc::check("a longer file is refused", [] {
    const Samples images = mnist_images();
    Bytes pixels = idx_images(images);
    Bytes labels = idx_labels(images);
    (*rc::gen::arbitrary<bool>() ? pixels : labels).push_back(std::byte{0});
    RC_ASSERT(refusal([&] { parse(pixels, labels); }).find("is too long") != std::string::npos);
  }));
}

TEST(Dataset, wrong_magic_is_refused) {
  EXPECT_TRUE(rc::check("any other first word is refused", [] {
    const Samples images = mnist_images();
    Bytes pixels = idx_images(images);
    Bytes labels = idx_labels(images);
    Bytes& damaged = *rc::gen::arbitrary<bool>() ? pixels : labels;
    damaged[*rc::gen::inRange(0, 4)] ^= static_cast<std::byte>(1 << *rc::gen::inRange(0, 8));
    const std::string error = refusal([&] { parse(pixels, labels); });
    RC_ASSERT(error.find("is not an IDX file") != std::string::npos ||
              error.find("was expected") != std::string::npos);
  }));
  Samples images{.shape = {1, 28, 28}, .bytes = {}, .labels = {1}};
  images.bytes.resize(kMnistPixels);
  EXPECT_EQ(refusal([&] { parse(idx_labels(images), idx_labels(images)); }),
            "'the-images' is a label file where an image file was expected");
  EXPECT_EQ(refusal([&] { parse(idx_images(images), idx_images(images)); }),
            "'the-labels' is an image file where a label file was expected");
}

TEST(Dataset, labels_out_of_range_are_refused) {
  EXPECT_TRUE(rc::check("a label of 10 or more is refused, wherever it is", [] {
    const auto label = *rc::gen::inRange(10, 256);
    Samples images = mnist_images();
    images.labels[*rc::gen::inRange<std::size_t>(0, images.count())] = static_cast<std::uint8_t>(label);
    const std::string what = "has the label " + std::to_string(label);
    RC_ASSERT(refusal([&] { parse(idx_images(images), idx_labels(images)); }).find(what) !=
              std::string::npos);

    Samples batch = cifar10_images();
    batch.labels[*rc::gen::inRange<std::size_t>(0, batch.count())] = static_cast<std::uint8_t>(label);
    Samples parsed;
    const auto append = [&] { append_cifar10_batch({"batch", cifar10_batch(batch)}, parsed); };
    RC_ASSERT(refusal(append).find(what) != std::string::npos);
    RC_ASSERT(parsed.count() == 0U && parsed.bytes.empty());
  }));
}

TEST(Dataset, counts_that_disagree_are_refused) {
  EXPECT_TRUE(rc::check("images and labels of different number are refused", [] {
    const Samples a = mnist_images();
    Samples b = mnist_images();
    if (a.count() == b.count()) b.labels.push_back(0);
    RC_ASSERT(refusal([&] { parse(idx_images(a), idx_labels(b)); })
                  .find("'the-images' has " + std::to_string(a.count()) + " images, but 'the-labels' has " +
                        std::to_string(b.count()) + " labels") != std::string::npos);
  }));
}

TEST(Dataset, headers_that_lie_are_refused) {
  const Bytes labels = idx({0x801, 1}, std::vector<std::uint8_t>{1});
  const std::vector<std::uint8_t> pixels(kMnistPixels);
  EXPECT_EQ(refusal([&] {
              parse(idx({0x803, 1, 28, 28}, pixels), idx({0x801, 0}, {}));
            }),
            "'the-labels' is empty: its header says 0 entries");
  EXPECT_NE(refusal([&] { parse(idx({0x803, 0, 28, 28}, {}), labels); }).find("is empty"), std::string::npos);
  EXPECT_NE(refusal([&] {
              parse(idx({0x803, 1, 14, 56}, pixels), labels);
            }).find("14 x 56 pixels, not 28 x 28"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              parse(idx({0x803, 0xffffffff, 28, 28}, pixels), labels);
            }).find("is truncated: 800 bytes of 3367254359296"),
            std::string::npos);
  // 2^32 * 784 and 2^64 in three dimensions: products that wrap around to what the file has.
  EXPECT_NE(refusal([&] {
              parse(idx({0x803, 1, 0x10000, 0x10000}, {}), labels);
            }).find("pixels, not 28 x 28"),
            std::string::npos);
}

TEST(Dataset, any_bytes_are_safe) {
  EXPECT_TRUE(rc::check("random bytes are parsed or refused", [](const std::vector<std::uint8_t>& a,
                                                                 const std::vector<std::uint8_t>& b) {
    const auto bytes = [](const std::vector<std::uint8_t>& from) { return std::as_bytes(std::span(from)); };
    // Behind a right beginning, so that the later checks see them too.
    const Bytes images = idx({0x803, 1, 28, 28}, a);
    const Bytes labels = idx({0x801, 1}, b);
    for (const std::span<const std::byte> x : {bytes(a), std::span<const std::byte>(images)})
      for (const std::span<const std::byte> y : {bytes(b), std::span<const std::byte>(labels)})
        RC_ASSERT(refusal([&] { parse_mnist({"x", x}, {"y", y}); }) != "accepted");  // a picture is longer
    Samples parsed;
    RC_ASSERT(refusal([&] { append_cifar10_batch({"x", bytes(a)}, parsed); }) != "accepted");
  }));
}

void write_mnist(const fs::path& folder, const Samples& train, const Samples& test, char separator) {
  const std::string mark(1, separator);
  write_file_atomically(folder / ("train-images" + mark + "idx3-ubyte"), idx_images(train));
  write_file_atomically(folder / ("train-labels" + mark + "idx1-ubyte"), idx_labels(train));
  write_file_atomically(folder / ("t10k-images" + mark + "idx3-ubyte"), idx_images(test));
  write_file_atomically(folder / ("t10k-labels" + mark + "idx1-ubyte"), idx_labels(test));
}

TEST(Dataset, loads_mnist_in_both_spellings) {
  EXPECT_TRUE(rc::check("load_dataset(mnist)", [] {
    const TemporaryFolder folder;
    const Samples train = mnist_images();
    const Samples test = mnist_images();
    write_mnist(folder.path(), train, test, *rc::gen::element('-', '.'));
    const Dataset dataset = load_dataset("mnist", folder.path());
    RC_ASSERT(same(dataset.train, train));
    RC_ASSERT(same(dataset.test, test));
    RC_ASSERT(dataset.name == "mnist" && dataset.classes == 10U && !dataset.augment);
    RC_ASSERT(dataset.mean[0] == 0.1307F && dataset.deviation[0] == 0.3081F);
  }));
}

TEST(Dataset, loads_cifar10_from_the_folder_or_its_subfolder) {
  EXPECT_TRUE(rc::check("load_dataset(cifar10)", [] {
    const TemporaryFolder folder;
    const fs::path batches = *rc::gen::arbitrary<bool>() ? folder.path() : folder.path() / kCifar10Folder;
    fs::create_directories(batches);
    Samples train;
    Samples test;
    for (const char* file : kCifar10Files) {
      const Samples images = cifar10_images();
      write_file_atomically(batches / file, cifar10_batch(images));
      append_cifar10_batch({file, cifar10_batch(images)},
                           std::string(file) == "test_batch.bin" ? test : train);
    }
    const Dataset dataset = load_dataset("cifar10", folder.path());
    RC_ASSERT(same(dataset.train, train));
    RC_ASSERT(same(dataset.test, test));
    RC_ASSERT(dataset.name == "cifar10" && dataset.classes == 10U && dataset.augment);
    RC_ASSERT(dataset.mean[2] == 0.4465F && dataset.deviation[2] == 0.2616F);
  }));
}

TEST(Dataset, errors_name_the_file_and_the_remedy) {
  const TemporaryFolder folder;
  EXPECT_THROW(load_dataset("imagenet", folder.path()), DataError);
  const auto load = [&](const std::string& name, const fs::path& from) {
    const std::string error = refusal([&] { load_dataset(name, from); });
    EXPECT_NE(error.find("`signvote data fetch " + name + "`"), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    return error;
  };
  EXPECT_NE(load("mnist", folder.path() / "none").find("none' is not a folder"), std::string::npos);
  EXPECT_NE(load("cifar10", folder.path()).find("has no data_batch_1.bin"), std::string::npos);
  Samples images{.shape = {1, 28, 28}, .bytes = {}, .labels = {4}};
  images.bytes.resize(kMnistPixels);
  write_mnist(folder.path(), images, images, '-');
  for (const char* file : kMnistFiles) {
    const Bytes whole = read_file(folder.path() / file);
    fs::resize_file(folder.path() / file, 3);
    EXPECT_NE(load("mnist", folder.path()).find(std::string(file) + "' is truncated: 3 bytes"),
              std::string::npos);
    fs::remove(folder.path() / file);
    EXPECT_NE(load("mnist", folder.path()).find(std::string("has no ") + file), std::string::npos);
    write_file_atomically(folder.path() / file, whole);
  }
  EXPECT_EQ(load_dataset("mnist", folder.path()).train.count(), 1U);
}

}  // namespace
}  // namespace signvote
