#include "report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace signvote {
namespace {

constexpr double kWidth = 460, kHeight = 300, kLeft = 52, kRight = 14, kTop = 10, kBottom = 44;
constexpr std::size_t kMostMarks = 25;    // on a line
constexpr std::size_t kMostPoints = 400;  // more cannot be seen

/// Around (0, 0). Lines differ in their marks too, because not everybody sees colours.
constexpr std::array<const char*, 4> kMarks = {"M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",  // a disc
                                               "M0 -4.8L4.6 3.6L-4.6 3.6z",            // a triangle
                                               "M-3.6 -3.6H3.6V3.6H-3.6z",             // a square
                                               "M0 -5.2L5.2 0L0 5.2L-5.2 0z"};         // a diamond

double share(const ChartAxis& axis, double value) {
  if (axis.logarithmic) return std::log(value / axis.low) / std::log(axis.high / axis.low);
  return (value - axis.low) / (axis.high - axis.low);
}

double x_of(const Chart& chart, double x) { return kLeft + share(chart.x, x) * (kWidth - kLeft - kRight); }
double y_of(const Chart& chart, double y) {
  return kHeight - kBottom - share(chart.y, y) * (kHeight - kTop - kBottom);
}

std::string number(double value) {
  const double magnitude = std::abs(value);
  if (magnitude >= 1e9) return fmt::format("{:g}G", value / 1e9);
  if (magnitude >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (magnitude >= 1e4) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:g}", value);
}

pugi::xml_node add_text(pugi::xml_node parent, double x, double y, const std::string& text,
                        const char* anchor) {
  pugi::xml_node node = parent.append_child("text");
  node.append_attribute("x") = fmt::format("{:.1f}", x).c_str();
  node.append_attribute("y") = fmt::format("{:.1f}", y).c_str();
  node.append_attribute("text-anchor") = anchor;
  node.text().set(text.c_str());
  return node;
}

void add_path(pugi::xml_node parent, const std::string& path, const std::string& classes) {
  pugi::xml_node node = parent.append_child("path");
  node.append_attribute("class") = classes.c_str();
  node.append_attribute("d") = path.c_str();
}

void draw_axes(pugi::xml_node svg, const Chart& chart) {
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  std::string grid;
  for (const double tic : tics_of(chart.x)) {
    const double x = x_of(chart, tic);
    grid += fmt::format("M{:.1f} {:.1f}V{:.1f}", x, kTop, bottom);
    add_text(svg, x, bottom + 17, number(tic), "middle");
  }
  for (const double tic : tics_of(chart.y)) {
    const double y = y_of(chart, tic);
    grid += fmt::format("M{:.1f} {:.1f}H{:.1f}", kLeft, y, right);
    add_text(svg, kLeft - 7, y + 4.5, number(tic), "end");
  }
  add_path(svg, grid, "grid");
  add_path(svg, fmt::format("M{0:.1f} {1:.1f}V{2:.1f}H{3:.1f}", kLeft, kTop, bottom, right), "frame");
  add_text(svg, (kLeft + right) / 2, kHeight - 7, chart.x.title, "middle");
  add_text(svg, 0, 0, chart.y.title, "middle").append_attribute("transform") =
      fmt::format("translate(13 {:.1f}) rotate(-90)", (kTop + bottom) / 2).c_str();
}

/// Where a line leaves the chart at its lower or upper end, the page's clipping cuts it.
void draw_line(pugi::xml_node parent, const Chart& chart, const ChartLine& line) {
  std::string path;
  const std::size_t every = line.points.size() / kMostPoints + 1;
  for (std::size_t i = 0; i < line.points.size(); ++i)
    if (i % every == 0 || i + 1 == line.points.size())
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', x_of(chart, line.points[i].x),
                          std::clamp(y_of(chart, line.points[i].y), -1e4, 1e4));
  if (!path.empty())
    add_path(parent, path, fmt::format("line s{}{}", line.style % kLineStyles, line.thin ? " thin" : ""));
}

void draw_marks(pugi::xml_node svg, const Chart& chart, const ChartLine& line) {
  const std::size_t every = line.points.size() / kMostMarks + 1;
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const ChartPoint& point = line.points[i];
    const double y = y_of(chart, point.y);
    if ((i % every != 0 && i + 1 != line.points.size()) || y > kHeight - kBottom + 1 || y < kTop - 1)
      continue;
    pugi::xml_node group = svg.append_child("g");
    group.append_attribute("class") = fmt::format("s{}", line.style % kLineStyles).c_str();
    group.append_attribute("transform") =
        fmt::format("translate({:.1f} {:.1f})", x_of(chart, point.x), y).c_str();
    group.append_child("title").text().set(point.told.c_str());
    pugi::xml_node near = group.append_child("circle");  // so that the pointer need not be exact
    near.append_attribute("r") = 9;
    near.append_attribute("class") = "near";
    add_path(group, kMarks[line.style % kMarks.size()], "mark");
  }
}

pugi::xml_node add_svg(pugi::xml_node parent, double width, double height) {
  pugi::xml_node svg = parent.append_child("svg");
  svg.append_attribute("xmlns") = "http://www.w3.org/2000/svg";
  svg.append_attribute("viewBox") = fmt::format("0 0 {:g} {:g}", width, height).c_str();
  return svg;
}

}  // namespace

ChartAxis axis_of(const std::string& title, const std::vector<double>& values, double span) {
  if (values.empty()) return {title, 0, 1, false};
  const auto [low, high] = std::ranges::minmax(values);
  if (low > 0 && high / low > span) return {title, std::max(low, 1e-12 * high), high, true};
  if (low >= 0) return {title, 0, high > 0 ? high : 1, false};
  return {title, low, high > low ? high : low + 1, false};
}

std::vector<double> tics_of(const ChartAxis& axis) {
  std::vector<double> tics;
  if (axis.logarithmic) {
    const double decades = std::log10(axis.high / axis.low);
    const double every = std::ceil(decades / 8);
    for (double decade = std::floor(std::log10(axis.low)); decade <= std::log10(axis.high); decade += every)
      for (const double digit : {1.0, 2.0, 5.0})
        if (const double tic = digit * std::pow(10, decade);
            (digit == 1 || decades < 3) && tic >= axis.low * (1 - 1e-9) && tic <= axis.high * (1 + 1e-9))
          tics.push_back(tic);
    return tics;
  }
  const double rough = (axis.high - axis.low) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double digit : {5.0, 2.0, 1.0})
    if (digit * power >= rough * (1 - 1e-9)) step = digit * power;
  const double first = std::ceil(axis.low / step - 1e-9);
  for (int i = 0; i < 12; ++i)
    if (const double tic = (first + i) * step; tic <= axis.high + 1e-9 * step) tics.push_back(tic);
  return tics;
}

void draw_chart(pugi::xml_node parent, const Chart& chart) {
  pugi::xml_node svg = add_svg(parent, kWidth, kHeight);
  svg.append_attribute("role") = "img";
  svg.append_attribute("aria-label") = chart.description.c_str();
  draw_axes(svg, chart);
  // A viewport of its own cuts off what lies below the axis or above it.
  pugi::xml_node inside = svg.append_child("svg");
  const std::array<double, 4> box = {kLeft, kTop - 3, kWidth - kLeft - kRight + 3,
                                     kHeight - kTop - kBottom + 3};
  inside.append_attribute("x") = box[0];
  inside.append_attribute("y") = box[1];
  inside.append_attribute("width") = box[2];
  inside.append_attribute("height") = box[3];
  inside.append_attribute("viewBox") =
      fmt::format("{:g} {:g} {:g} {:g}", box[0], box[1], box[2], box[3]).c_str();
  for (const bool thin : {true, false})
    for (const ChartLine& line : chart.lines)
      if (line.thin == thin) draw_line(inside, chart, line);
  for (const ChartLine& line : chart.lines)
    if (!line.thin) draw_marks(svg, chart, line);
}

void draw_sample(pugi::xml_node parent, unsigned style) {
  pugi::xml_node svg = add_svg(parent, 40, 14);
  svg.append_attribute("class") = "sample";
  svg.append_attribute("aria-hidden") = "true";
  add_path(svg, "M1 7H39", fmt::format("line s{}", style % kLineStyles));
  pugi::xml_node group = svg.append_child("g");
  group.append_attribute("class") = fmt::format("s{}", style % kLineStyles).c_str();
  group.append_attribute("transform") = "translate(20 7)";
  add_path(group, kMarks[style % kMarks.size()], "mark");
}

}  // namespace signvote
