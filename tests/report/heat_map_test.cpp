// The heat map's scale as properties; its picture by the colours that a reader would see.
#include "report/heat_map.h"

#include <gtest/gtest.h>
#include <png.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <map>

#include "temporary_folder.h"

namespace signvote {
namespace {

HeatMap map_of(std::size_t rows, std::size_t columns, std::vector<double> values) {
  HeatMap map{"It's a title", "a remark", "row", "column", "value", {}, {}, std::move(values), true};
  for (std::size_t i = 0; i < rows; ++i) map.rows.push_back("row 'r' " + std::to_string(i));
  for (std::size_t i = 0; i < columns; ++i) map.columns.push_back("layer_" + std::to_string(i));
  return map;
}

/// How many pixels of the picture have each colour.
std::map<std::uint32_t, std::size_t> colours(const std::filesystem::path& file) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&image, file.c_str()), 0);
  image.format = PNG_FORMAT_RGB;
  std::vector<unsigned char> bytes(PNG_IMAGE_SIZE(image));
  EXPECT_NE(png_image_finish_read(&image, nullptr, bytes.data(), 0, nullptr), 0);
  std::map<std::uint32_t, std::size_t> result;
  for (std::size_t i = 0; i + 2 < bytes.size(); i += 3)
    ++result[static_cast<std::uint32_t>(bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2])];
  return result;
}

TEST(HeatMap, colours_reach_as_far_as_the_values) {
  EXPECT_TRUE(rc::check("no value is outside, and no more than a step of the scale is unused", [] {
    const auto shares = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1001)));
    std::vector<double> values = {std::numeric_limits<double>::quiet_NaN()};
    double most = 0;
    for (const int share : shares) {
      values.push_back(share / 1000.0);
      most = std::max(most, std::abs(values.back() - 0.5));
    }
    const double reach = heat_map_reach(map_of(1, values.size(), values));
    RC_ASSERT(reach >= most - 1e-9);
    RC_ASSERT(reach >= 0.05);
    RC_ASSERT(reach < std::max(0.05, most) + 0.05);
    RC_ASSERT(std::abs(reach * 20 - std::round(reach * 20)) < 1e-9);
  }));
}

TEST(HeatMap, only_few_cells_are_labelled) {
  EXPECT_TRUE(labels_cells(map_of(15, 15, {})));
  EXPECT_FALSE(labels_cells(map_of(15, 100, {})));
  EXPECT_FALSE(labels_cells(map_of(200, 8, {})));
}

TEST(HeatMap, draws_good_bad_and_unknown_cells_in_their_colours) {
  const TemporaryFolder folder;
  constexpr std::uint32_t kBlue = 0x0072B2, kOrange = 0xD55E00, kGrey = 0xD0D0D0;
  // Eighteen rows and a hundred columns, so that no label is in the way: a third of each.
  std::vector<double> values;
  for (const double value : {0.25, 0.75, std::numeric_limits<double>::quiet_NaN()})
    values.insert(values.end(), 600, value);
  HeatMap map = map_of(18, 100, values);
  draw_heat_map(map, folder.path() / "new" / "map.png");
  auto seen = colours(folder.path() / "new" / "map.png");
  const std::size_t cells = seen[kBlue];
  EXPECT_GT(cells, 100'000U);
  EXPECT_NEAR(static_cast<double>(seen[kOrange]), static_cast<double>(cells),
              0.05 * static_cast<double>(cells));
  EXPECT_NEAR(static_cast<double>(seen[kGrey]), static_cast<double>(cells),
              0.05 * static_cast<double>(cells));
  // Where high is good, the colours are exchanged.
  map.low_is_good = false;
  map.values.resize(1200);
  map.rows.resize(12);
  for (std::size_t i = 0; i < 1200; ++i) map.values[i] = i < 400 ? 0.75 : 0.25;
  draw_heat_map(map, folder.path() / "map.png");
  seen = colours(folder.path() / "map.png");
  EXPECT_GT(seen[kBlue], 50'000U);
  EXPECT_NEAR(static_cast<double>(seen[kOrange]), 2.0 * static_cast<double>(seen[kBlue]),
              0.1 * static_cast<double>(seen[kBlue]));
}

}  // namespace
}  // namespace signvote
