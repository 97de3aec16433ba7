// The figure's numbers as properties; its pictures by what a reader of the files would see.
#include "report/figure.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

#include "base/files.h"
#include "signvote/error.h"
#include "temporary_folder.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

rc::Gen<Figure> any_figure() {
  return rc::gen::exec([] {
    // Thirds, so that no value is short in decimal digits.
    const auto share = rc::gen::map(rc::gen::inRange(0, 300'001), [](int n) { return n / 300'000.0; });
    Figure figure;
    figure.title = "title";
    figure.seeds = *rc::gen::inRange(1U, 9U);
    figure.baseline = "mv";
    for (int p = *rc::gen::inRange(1, 5); p > 0; --p) {
      Panel panel{"panel", std::to_string(p), {}, {}};
      for (const char* method : {"mv", "it"}) {
        Curve curve{method, {}};
        const auto step = *rc::gen::inRange<std::uint64_t>(1, 200);
        for (int i = *rc::gen::inRange(0, 30); i >= 0; --i) {
          std::array<double, 3> values{*share, *share, *share};
          std::sort(values.begin(), values.end());
          curve.points.push_back({step * curve.points.size(), values[1], values[0], values[2]});
        }
        panel.curves.push_back(curve);
      }
      Curve lead = panel.curves.back();  // without its last point, which only one seed has reached
      for (CurvePoint& point : lead.points) point = {point.round, -point.mean, -point.high, -point.low};
      lead.points.pop_back();
      panel.leads.push_back(lead);
      figure.panels.push_back(panel);
    }
    return figure;
  });
}

template <typename Number>
Number parse(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  RC_ASSERT(error == std::errc() && end == text.data() + text.size());
  return value;
}

TEST(Figure, csv_gives_back_every_number) {
  EXPECT_TRUE(rc::check("every point is one line that reads back to the same numbers", [] {
    const Figure figure = *any_figure();
    std::istringstream csv(figure_csv(figure));
    std::string line;
    RC_ASSERT(std::getline(csv, line));
    RC_ASSERT(
        line ==
        "batch_mode,method,round,seeds,accuracy_mean,accuracy_min,accuracy_max,lead_mean,lead_min,lead_max");
    for (const Panel& panel : figure.panels) {
      for (const Curve& curve : panel.curves) {
        for (const CurvePoint& point : curve.points) {
          RC_ASSERT(std::getline(csv, line));
          std::istringstream cells(line);
          std::vector<std::string> cell;
          for (std::string text; std::getline(cells, text, ',');) cell.push_back(text);
          const bool leads = curve.method == "it" && &point != &curve.points.back();
          RC_ASSERT(cell.size() == (leads ? 10U : 9U));  // getline sees no field after a last comma
          RC_ASSERT(cell[0] == panel.name);
          RC_ASSERT((leads ? parse<double>(cell[7]) == -point.mean : cell[7].empty()));
          RC_ASSERT((!leads || parse<double>(cell[8]) == -point.high));
          RC_ASSERT((!leads || parse<double>(cell[9]) == -point.low));
          RC_ASSERT(cell[1] == curve.method);
          RC_ASSERT(parse<std::uint64_t>(cell[2]) == point.round);
          RC_ASSERT(parse<unsigned>(cell[3]) == figure.seeds);
          RC_ASSERT(parse<double>(cell[4]) == point.mean);
          RC_ASSERT(parse<double>(cell[5]) == point.low);
          RC_ASSERT(parse<double>(cell[6]) == point.high);
        }
      }
    }
    RC_ASSERT(!std::getline(csv, line));
  }));
}

TEST(Figure, the_range_clips_nothing) {
  EXPECT_TRUE(rc::check("the range holds every seed's accuracy, in steps of 25", [] {
    const Figure figure = *any_figure();
    const AxisRange range = accuracy_range(figure);
    RC_ASSERT(0 <= range.low && range.low < range.high && range.high <= 100);
    RC_ASSERT(std::fmod(range.low, 25) == 0 && std::fmod(range.high, 25) == 0);
    double lowest = 100;
    double highest = 0;
    for (const Panel& panel : figure.panels)
      for (const Curve& curve : panel.curves)
        for (const CurvePoint& point : curve.points) {
          lowest = std::min(lowest, 100 * point.low);
          highest = std::max(highest, 100 * point.high);
        }
    RC_ASSERT(range.low <= lowest && highest <= range.high);
    RC_ASSERT(range.high < highest + 25 || range.high == 25);
    RC_ASSERT(range.low > lowest - 25 || range.low == range.high - 25);
  }));
}

TEST(Figure, the_range_of_leads_has_zero_and_all_of_them) {
  EXPECT_TRUE(rc::check("all leads, in whole numbers", [] {
    const Figure figure = *any_figure();
    const AxisRange range = lead_range(figure);
    RC_ASSERT(range.low <= 0 && 0 <= range.high);
    RC_ASSERT(std::fmod(range.low, range.tic) == 0 && std::fmod(range.high, range.tic) == 0);
    RC_ASSERT(range.high - range.low <= 5 * range.tic);
    for (const Panel& panel : figure.panels)
      for (const CurvePoint& point : panel.leads[0].points)
        RC_ASSERT(range.low <= 100 * point.low && 100 * point.high <= range.high);
  }));
}

class Drawing : public testing::Test {
 protected:
  void TearDown() override { ::setenv("PATH", path_.c_str(), 1); }

  // The only program that is found from now on is this shell script called gnuplot.
  void replace_gnuplot(const std::string& shell) {
    const fs::path bin = folder_ / "bin";
    make_folder(bin);
    write_file_atomically(bin / "gnuplot", "#!/bin/sh\n" + shell);
    fs::permissions(bin / "gnuplot", fs::perms::owner_all);
    ::setenv("PATH", bin.c_str(), 1);
  }

  // The message, or "" if all went well.
  std::string error_of(const Figure& figure) {
    try {
      draw_figure(figure, folder_ / "out", "f");
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "out")) names.insert(entry.path().filename());
    return names;
  }
  std::string content(const char* name) const { return read_text_file(folder_ / "out" / name); }

  TemporaryFolder folder_;
  std::string path_ = std::getenv("PATH");
};

Figure small_figure(std::size_t panels, unsigned seeds) {
  Figure figure;
  figure.title = "the title";
  figure.seeds = seeds;
  figure.baseline = "mv";
  for (std::size_t p = 0; p < panels; ++p)
    figure.panels.push_back({"panel " + std::to_string(p),
                             std::to_string(p),
                             {{"mv", {{0, .1, .1, .1}, {50, .7, .6, .8}, {100, .8, .8, .8}}},
                              {"it", {{0, .1, .1, .1}, {50, .8, .7, .9}, {100, .9, .9, .9}}}},
                             {{"it", {{0, 0, 0, 0}, {50, .1, .1, .1}, {100, .1, .1, .1}}}}});
  return figure;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Width and height, four bytes each with the highest first, stand at byte 16 of a PNG.
std::pair<int, int> png_size(const std::string& png) {
  const auto number = [&](std::size_t at) {
    int value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value * 256 + static_cast<unsigned char>(png.at(at + i));
    return value;
  };
  return {number(16), number(20)};
}

TEST_F(Drawing, writes_three_files_and_nothing_else) {
  ASSERT_EQ(error_of(small_figure(4, 3)), "");
  EXPECT_EQ(files(), (std::set<std::string>{"f.csv", "f.png", "f.svg"}));
  EXPECT_EQ(content("f.csv"), figure_csv(small_figure(4, 3)));
  EXPECT_EQ(content("f.png").substr(0, 4), "\x89PNG");
  EXPECT_EQ(png_size(content("f.png")), std::pair(1600, 1366));
  const std::string svg = content("f.svg");
  for (const char* label : {"<text>IT-signSGD<", "<text>signSGD-MV<"}) {  // in the one legend
    EXPECT_GE(count(svg, label), 1U);
    EXPECT_LE(count(svg, label), 2U) << "gnuplot writes a legend once or twice";
  }
  EXPECT_EQ(count(svg, ">test accuracy (%)<"), 2U);
  EXPECT_EQ(count(svg, ">lead (points)<"), 2U);
  EXPECT_EQ(count(svg, "lead over signSGD-MV, seed by seed"), 1U);
  EXPECT_EQ(count(svg, ">round<"), 2U);
  EXPECT_EQ(count(svg, ">the title<"), 1U);
  EXPECT_EQ(count(svg, ">panel 3<"), 1U);
  EXPECT_GE(count(svg, "fill-opacity"), 8U);
}

TEST_F(Drawing, one_seed_has_no_band) {
  ASSERT_EQ(error_of(small_figure(1, 1)), "");
  EXPECT_EQ(png_size(content("f.png")), std::pair(1000, 786));
  EXPECT_EQ(count(content("f.svg"), "fill-opacity"), 0U);
  EXPECT_EQ(count(content("f.svg"), "seeds"), 0U);
}

TEST_F(Drawing, marks_where_weights_begin) {
  Figure figure = small_figure(1, 1);
  figure.weights_begin = 40;
  ASSERT_EQ(error_of(figure), "");
  EXPECT_EQ(count(content("f.svg"), "begins to weigh votes"), 1U);
  figure.weights_begin = 100;  // never, in 100 rounds
  ASSERT_EQ(error_of(figure), "");
  EXPECT_EQ(count(content("f.svg"), "begins to weigh votes"), 0U);
}

TEST_F(Drawing, one_method_has_no_leads) {
  Figure figure = small_figure(1, 1);
  figure.panels[0].curves.pop_back();
  figure.panels[0].leads.clear();
  ASSERT_EQ(error_of(figure), "");
  EXPECT_EQ(png_size(content("f.png")), std::pair(1000, 626));
  EXPECT_EQ(count(content("f.svg"), "lead"), 0U);
}

TEST_F(Drawing, titles_are_shown_as_they_are) {
  Figure figure = small_figure(5, 1);
  figure.title = "a_b^c {d} @e ~f #g %h 14 × 4";
  figure.panels[0].title = "it's \"quoted\"";
  figure.panels[1].title = "$(touch pwned) `touch pwned`";
  figure.panels[2].title = "ends with \\";
  figure.panels[3].title = "two\nlines'\nset output";
  figure.panels[4].title = "";
  ASSERT_EQ(error_of(figure), "");
  EXPECT_EQ(files(), (std::set<std::string>{"f.csv", "f.png", "f.svg"}));
  const std::string svg = content("f.svg");
  for (const char* shown : {"a_b^c {d} @e ~f #g %h 14 × 4", "it's \"quoted\"", "$(touch pwned) `touch pwned`",
                            "ends with \\", "two lines' set output"})
    EXPECT_NE(svg.find(">" + std::string(shown) + "<"), std::string::npos) << shown;
}

TEST_F(Drawing, a_curve_without_points_leaves_the_others) {
  Figure figure = small_figure(2, 3);
  figure.panels[0].curves[1].points.clear();
  figure.panels[0].leads[0].points.clear();
  figure.panels[1].curves.clear();
  figure.panels[1].leads.clear();
  EXPECT_EQ(error_of(figure), "");
  Figure nothing;
  nothing.panels.push_back({"mode 1", "1", {}, {}});
  EXPECT_EQ(error_of(nothing), "");
}

TEST_F(Drawing, a_failure_says_what_to_install_and_keeps_the_old_picture) {
  make_folder(folder_ / "out");
  write_file_atomically(folder_ / "out" / "f.png", "old");
  const std::string half = "printf '\\211PNG' > f.png.drawing\n";
  for (const std::string& gnuplot : {half + "echo no pngcairo; exit 1\n", half, std::string("exit 0\n")}) {
    replace_gnuplot(gnuplot);
    const std::string error = error_of(small_figure(1, 1));
    EXPECT_NE(error.find("gnuplot-nox"), std::string::npos) << error;
    EXPECT_NE(error.find("f.png'"), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    EXPECT_EQ(files(), (std::set<std::string>{"f.csv", "f.png"}));
    EXPECT_EQ(content("f.png"), "old");
  }
  ::setenv("PATH", (folder_ / "out").c_str(), 1);
  EXPECT_NE(error_of(small_figure(1, 1)).find("gnuplot-nox"), std::string::npos);
}

}  // namespace
}  // namespace signvote
