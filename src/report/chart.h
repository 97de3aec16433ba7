// A chart of lines as SVG inside a page. Its colours, dashes and sizes are classes of the page's style sheet:
// .s0, .s1, ... for what belongs together in all charts, .thin for single seeds.
#pragma once

#include <optional>
#include <pugixml.hpp>
#include <string>
#include <vector>

namespace signvote {

/// How many styles there are; later lines take the first ones again.
inline constexpr unsigned kLineStyles = 8;

struct ChartPoint {
  double x = 0;
  double y = 0;
  std::string told;  // when the pointer is on it
};

struct ChartLine {
  unsigned style = 0;
  bool thin = false;  // without marks
  std::vector<ChartPoint> points;
};

struct ChartAxis {
  std::string title;
  double low = 0;
  double high = 1;
  bool logarithmic = false;
};

struct Chart {
  std::string description;  // for those who cannot see it
  ChartAxis x;
  ChartAxis y;
  std::vector<ChartLine> lines;
};

/// An axis that takes all `values`; a logarithmic one if they span more than `span` times the lowest.
ChartAxis axis_of(const std::string& title, const std::vector<double>& values, double span);

/// The places of an axis's tics, within its range.
std::vector<double> tics_of(const ChartAxis& axis);

/// REQUIRES: all numbers are finite, and low < high.
void draw_chart(pugi::xml_node parent, const Chart& chart);

/// The sample of a line in a legend.
void draw_sample(pugi::xml_node parent, unsigned style);

}  // namespace signvote
