// From bytes to tensors: each pixel against a plain twin that moves the picture before it is read.
#include "learn/batch.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <random>

namespace signvote {
namespace {

Dataset arbitrary_dataset() {
  Dataset dataset;
  dataset.mean = {0.1307F, 0.4822F, 0.25F};
  dataset.deviation = {0.3081F, 0.2435F, 0.5F};
  Samples& images = dataset.train;
  images.shape = {*rc::gen::element<std::size_t>(1, 3), *rc::gen::inRange<std::size_t>(1, 9),
                  *rc::gen::inRange<std::size_t>(1, 9)};
  std::mt19937 source(*rc::gen::arbitrary<std::uint32_t>());
  images.labels.resize(*rc::gen::inRange<std::size_t>(1, 5));
  images.bytes.resize(images.count() * elements_of(images.shape));
  for (auto& label : images.labels) label = static_cast<std::uint8_t>(source() % 10);
  for (auto& pixel : images.bytes) pixel = static_cast<std::uint8_t>(source());
  return dataset;
}

Pick arbitrary_pick(const Samples& images) {
  const auto move = rc::gen::oneOf(rc::gen::inRange(-4, 5), rc::gen::inRange(-128, 128));
  return {.index = *rc::gen::inRange<std::uint32_t>(0, static_cast<std::uint32_t>(images.count())),
          .right = static_cast<std::int8_t>(*move),
          .down = static_cast<std::int8_t>(*move),
          .mirrored = *rc::gen::arbitrary<bool>()};
}

// The image's bytes after it has been shifted over black, and then mirrored.
std::vector<std::uint8_t> moved(const Samples& images, const Pick& pick) {
  const auto height = static_cast<int>(images.shape[1]);
  const auto width = static_cast<int>(images.shape[2]);
  std::vector<std::uint8_t> out(elements_of(images.shape));
  for (int c = 0; c < static_cast<int>(images.shape[0]); ++c)
    for (int y = 0; y < height; ++y) {
      const auto row = [&](int at) { return static_cast<std::size_t>((c * height + at) * width); };
      for (int x = 0; x < width; ++x) {
        const int to_x = x + pick.right;
        const int to_y = y + pick.down;
        if (to_x < 0 || to_x >= width || to_y < 0 || to_y >= height) continue;
        out[row(to_y) + static_cast<std::size_t>(to_x)] =
            images.bytes_of(pick.index)[row(y) + static_cast<std::size_t>(x)];
      }
    }
  for (auto row = out.begin(); pick.mirrored && row != out.end(); row += width)
    std::reverse(row, row + width);
  return out;
}

TEST(Batch, each_pixel_like_its_twin) {
  EXPECT_TRUE(rc::check("shifted, mirrored, normalised by channel", [] {
    const Dataset dataset = arbitrary_dataset();
    const Samples& images = dataset.train;
    BatchReader reader(dataset, images);
    for (int batches = 0; batches < 2; ++batches) {  // of any size, one after the other
      std::vector<Pick> picks;
      for (auto n = *rc::gen::inRange(1, 6); n > 0; --n) picks.push_back(arbitrary_pick(images));
      const Batch batch = reader.read(picks);
      const std::vector<std::int64_t> shape = {
          static_cast<std::int64_t>(picks.size()), static_cast<std::int64_t>(images.shape[0]),
          static_cast<std::int64_t>(images.shape[1]), static_cast<std::int64_t>(images.shape[2])};
      RC_ASSERT(batch.x.sizes().vec() == shape);
      RC_ASSERT(batch.y.sizes().vec() == std::vector<std::int64_t>{shape[0]});
      const torch::Tensor planes = batch.x.contiguous();  // as the bytes are: image, channel, row, column
      for (std::size_t i = 0; i < picks.size(); ++i) {
        RC_ASSERT(batch.y[static_cast<std::int64_t>(i)].item<std::int64_t>() ==
                  images.labels[picks[i].index]);
        const std::vector<std::uint8_t> bytes = moved(images, picks[i]);
        const float* values = planes.data_ptr<float>() + i * elements_of(images.shape);
        for (std::size_t p = 0; p < bytes.size(); ++p) {
          const std::size_t c = p / (images.shape[1] * images.shape[2]);
          const double expected = (bytes[p] / 255.0 - dataset.mean[c]) / dataset.deviation[c];
          RC_ASSERT(std::abs(values[p] - expected) < 1e-5);
        }
      }
    }
  }));
}

TEST(Batch, channels_are_last_in_memory) {
  EXPECT_TRUE(rc::check("and nothing lies between images", [] {
    const Dataset dataset = arbitrary_dataset();
    const std::vector<Pick> picks(3);
    const Batch batch = BatchReader(dataset, dataset.train).read(picks);
    const auto c = static_cast<std::int64_t>(dataset.train.shape[0]);
    const auto w = static_cast<std::int64_t>(dataset.train.shape[2]);
    const auto h = static_cast<std::int64_t>(dataset.train.shape[1]);
    RC_ASSERT(batch.x.strides().vec() == (std::vector<std::int64_t>{h * w * c, 1, w * c, c}));
    RC_ASSERT(batch.x.is_contiguous(torch::MemoryFormat::ChannelsLast));
  }));
}

TEST(Batch, mnists_black_and_white) {
  Dataset dataset;
  dataset.mean = {0.1307F};
  dataset.deviation = {0.3081F};
  dataset.train = {.shape = {1, 1, 2}, .bytes = {0, 255}, .labels = {7}};
  BatchReader reader(dataset, dataset.train);
  const auto values = [&](const Pick& pick) {
    const Batch batch = reader.read(std::span(&pick, 1));
    return std::pair{batch.x.flatten()[0].item<float>(), batch.x.flatten()[1].item<float>()};
  };
  const float black = -0.1307F / 0.3081F;
  const float white = (1 - 0.1307F) / 0.3081F;
  EXPECT_EQ(values({}), std::pair(black, white));
  EXPECT_EQ(values({.mirrored = true}), std::pair(white, black));
  EXPECT_EQ(values({.right = -1}), std::pair(white, black));  // what comes in is black, not grey
  EXPECT_EQ(values({.right = -1, .mirrored = true}), std::pair(black, white));
  EXPECT_EQ(values({.down = 1}), std::pair(black, black));
}

}  // namespace
}  // namespace signvote
