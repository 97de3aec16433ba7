#include "report/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/files.h"
#include "report/gnuplot.h"

namespace signvote {
namespace {

// Okabe and Ito's, which the colour-blind can tell apart; they differ in lightness from what is between.
constexpr const char* kGood = "#0072B2";
constexpr const char* kBad = "#D55E00";
constexpr const char* kUnknown = "#D0D0D0";

// All in pixels.
constexpr double kLetter = 9;  // its mean width, on the axes
constexpr double kLine = 18;   // between two names on an axis
constexpr double kTop = 96;
constexpr double kRight = 150;  // with the scale of colours

struct Layout {
  double left, bottom, plot_width, plot_height, width, height;
  double cell_width, cell_height;
};

double longest(const std::vector<std::string>& names) {
  std::size_t most = 0;
  for (const std::string& name : names) most = std::max(most, std::min<std::size_t>(name.size(), 40));
  return kLetter * static_cast<double>(most);
}

Layout layout_of(const HeatMap& map) {
  Layout layout{};
  layout.left = 50 + longest(map.rows);
  layout.bottom = 50 + 0.75 * longest(map.columns);  // they are written slanting
  layout.plot_width = std::clamp(64.0 * static_cast<double>(map.columns.size()), 640.0, 1200.0);
  layout.plot_height = std::clamp(30.0 * static_cast<double>(map.rows.size()), 180.0, 1000.0);
  layout.width = std::round(layout.left + layout.plot_width + kRight);
  layout.height = std::round(kTop + layout.plot_height + layout.bottom);
  layout.cell_width = layout.plot_width / static_cast<double>(map.columns.size());
  layout.cell_height = layout.plot_height / static_cast<double>(map.rows.size());
  return layout;
}

/// The names on an axis, as many as there is room for.
std::string tics(const std::vector<std::string>& names, double cell) {
  std::string text;
  const auto step = static_cast<std::size_t>(std::max(1.0, std::ceil(kLine / cell)));
  for (std::size_t i = 0; i < names.size(); i += step) {
    const std::string name = names[i].size() > 40 ? names[i].substr(0, 37) + "..." : names[i];
    fmt::format_to(std::back_inserter(text), "{}{} {}", i == 0 ? "" : ", ", gnuplot_string(name), i);
  }
  return text;
}

std::string script(const HeatMap& map, const std::string& output) {
  const Layout at = layout_of(map);
  const double reach = heat_map_reach(map);
  const bool labels = labels_cells(map);
  std::string text = "set encoding utf8\n";
  const auto add = [&text]<typename... Args>(fmt::format_string<Args...> line, Args&&... args) {
    fmt::format_to(std::back_inserter(text), line, std::forward<Args>(args)...);
    text += '\n';
  };
  add("$cells << END");
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    const double value = map.values[i];
    const bool known = !std::isnan(value);
    // White letters on the dark ends of the scale.
    const bool dark = known && std::abs(value - 0.5) > 0.7 * reach;
    add("{} {} {} \"{}\" {}", i % map.columns.size(), i / map.columns.size(),
        known ? fmt::to_string(value) : "NaN", known ? fmt::format("{:.2f}", value) : "",
        dark ? 0xFFFFFF : 0x222222);
  }
  add("END");
  add("set terminal {} size {},{} font 'DejaVu Sans,12'", kPng.terminal, at.width, at.height);
  add("set output {}", gnuplot_string(output));
  add("set lmargin at screen {}\nset rmargin at screen {}\nset tmargin at screen {}\nset bmargin at screen "
      "{}",
      at.left / at.width, (at.left + at.plot_width) / at.width, 1 - kTop / at.height, at.bottom / at.height);
  const double centre = (at.left + at.plot_width / 2) / at.width;
  add("set label 1 {} at screen {},{} center noenhanced font ',16'", gnuplot_string(map.title), centre,
      1 - 30 / at.height);
  add("set label 2 {} at screen {},{} center noenhanced font ',11' tc '#555555'", gnuplot_string(map.remark),
      centre, 1 - 60 / at.height);
  add("set border lw 1 lc '#444444'\nset tics nomirror out scale 0.4 tc '#222222' noenhanced");
  add("set xtics rotate by 40 right ({})\nset ytics ({})", tics(map.columns, at.cell_width),
      tics(map.rows, at.cell_height));
  add("set xrange [-0.5:{}]\nset yrange [{}:-0.5]", static_cast<double>(map.columns.size()) - 0.5,
      static_cast<double>(map.rows.size()) - 0.5);
  add("set xlabel {} noenhanced\nset ylabel {} noenhanced\nset cblabel {} noenhanced offset 1.5",
      gnuplot_string(map.column_title), gnuplot_string(map.row_title), gnuplot_string(map.value_title));
  add("set palette defined (0 '{}', 0.5 '#FFFFFF', 1 '{}')", map.low_is_good ? kGood : kBad,
      map.low_is_good ? kBad : kGood);
  add("set cbrange [{}:{}]\nset cbtics format '%.2f'\nset colorbox user origin {},{} size {},{}", 0.5 - reach,
      0.5 + reach, (at.left + at.plot_width + 24) / at.width, at.bottom / at.height, 18 / at.width,
      at.plot_height / at.height);
  add("set object 1 rectangle from graph 0,0 to graph 1,1 behind fc rgb '{}' fs solid noborder", kUnknown);
  add("plot $cells using 1:2:3 with image notitle{}",
      labels ? ", $cells using 1:2:4:5 with labels tc rgb variable font ',10' notitle" : "");
  add("set output");
  return text;
}

}  // namespace

double heat_map_reach(const HeatMap& map) {
  double most = 0;
  for (const double value : map.values)
    if (!std::isnan(value)) most = std::max(most, std::abs(value - 0.5));
  return std::clamp(std::ceil(most * 20 - 1e-9) / 20, 0.05, 0.5);
}

bool labels_cells(const HeatMap& map) {
  const Layout at = layout_of(map);
  return at.cell_width >= 40 && at.cell_height >= 18;
}

void draw_heat_map(const HeatMap& map, const std::filesystem::path& file) {
  assert(!map.values.empty() && map.values.size() == map.rows.size() * map.columns.size());
  make_folder(file.parent_path());
  draw_picture(file, kPng, [&](const std::string& output) { return script(map, output); });
}

}  // namespace signvote
