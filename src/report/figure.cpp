#include "report/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "report/gnuplot.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

// Curves differ in colour (Okabe and Ito's, safe for the colour-blind), in dash and in mark.
struct Style {
  std::string_view method;
  std::string_view label;
  std::string_view colour;
  std::string_view dash;
  int mark;  // 7: a disc, 9: a triangle, 5: a square, 13: a diamond
};
constexpr Style kStyles[] = {{"it", "IT-signSGD", "#0072B2", "solid", 7},
                             {"shrink", "IT-signSGD with shrinkage", "#009E73", "(3,3)", 5},
                             {"agree", "IT-signSGD by agreement", "#CC79A7", "solid", 13},
                             {"signvote", "signvote's defaults", "#CC79A7", "solid", 13},
                             {"mv", "signSGD-MV", "#D55E00", "(10,4)", 9},
                             {"oracle", "weights from the batch sizes", "#56B4E9", "(3,3)", 11},
                             {"solo", "the largest batch alone", "#E69F00", "(1,2)", 1},
                             {"sgd", "SGD, full precision", "#444444", "(8,3,2,3)", 3}};

Style style_of(const Curve& curve) {
  for (const Style& style : kStyles)
    if (style.method == curve.method) return style;
  return {curve.method, curve.method, "#000000", "(3,3)", 5};
}

std::string_view label_of(const std::string& method) {
  for (const Style& style : kStyles)
    if (style.method == method) return style.label;
  return method;
}

/// Those of all curves, in the order in which they come.
std::vector<Style> styles_of(const Figure& figure) {
  std::vector<Style> styles;
  for (const Panel& panel : figure.panels)
    for (const Curve& curve : panel.curves)
      if (std::ranges::find(styles, style_of(curve).method, &Style::method) == styles.end())
        styles.push_back(style_of(curve));
  return styles;
}

std::uint64_t last_round(const Figure& figure) {
  std::uint64_t last = 1;
  for (const Panel& panel : figure.panels)
    for (const Curve& curve : panel.curves)
      for (const CurvePoint& point : curve.points) last = std::max(last, point.round);
  return last;
}

const CurvePoint* point_of(const Curve& curve, std::uint64_t round) {
  const auto found = std::ranges::find(curve.points, round, &CurvePoint::round);
  return found == curve.points.end() ? nullptr : &*found;
}

std::string csv_field(const std::string& text) {
  return text.find(',') == std::string::npos ? text : '"' + text + '"';
}

struct Layout {
  int columns, rows, width, height, legend_rows;
};

constexpr double kLeadHeight = 130;  // pixels of a lead's plot
constexpr int kLegendRow = 26;

Layout layout_of(std::size_t panels, bool leads, const std::vector<Style>& styles) {
  const int columns = panels == 1 ? 1 : 2;
  const int rows = static_cast<int>(panels + 1) / 2;
  const int width = columns == 1 ? 1000 : 1600;
  std::size_t longest = 1;
  for (const Style& style : styles) longest = std::max(longest, style.label.size());
  const std::size_t in_a_row =
      static_cast<std::size_t>(width - 140) / (12 * longest + 40);  // as gnuplot counts
  const auto legend_rows = static_cast<int>((styles.size() + in_a_row - 1) / in_a_row);
  const int lead = leads ? static_cast<int>(kLeadHeight) + 30 : 0;
  return {columns, rows, width, (columns == 1 ? 160 : 140) + kLegendRow * legend_rows + rows * (440 + lead),
          legend_rows};
}

bool has_leads(const Figure& figure) {
  return std::ranges::any_of(figure.panels, [](const Panel& panel) { return !panel.leads.empty(); });
}

// gnuplot's script for the whole picture. Every plot is placed by hand, so that all panels have the same
// size whether or not they carry the axes' names.
std::string script(const Figure& figure, std::string_view terminal, const std::string& output) {
  const bool leads = has_leads(figure);
  const std::vector<Style> styles = styles_of(figure);
  const Layout layout = layout_of(figure.panels.size(), leads, styles);
  const auto x_of = [&](double pixels) { return pixels / layout.width; };
  const auto y_of = [&](double pixels) { return pixels / layout.height; };
  const bool band = figure.seeds > 1;
  const double left = 108, right = 32, bottom = 80, top = 130 + kLegendRow * layout.legend_rows,
               gap = 96;  // pixels
  const double centre = x_of((layout.width + left - right) / 2);

  std::string text = "set encoding utf8\n";
  const auto add = [&text]<typename... Args>(fmt::format_string<Args...> line, Args&&... args) {
    fmt::format_to(std::back_inserter(text), line, std::forward<Args>(args)...);
    text += '\n';
  };
  const auto add_data = [&](const char* kind, std::size_t p, const std::vector<Curve>& curves) {
    for (std::size_t c = 0; c < curves.size(); ++c) {
      add("${}_{}_{} << END", kind, p, c);
      for (const CurvePoint& point : curves[c].points)
        add("{} {} {} {}", point.round, 100 * point.mean, 100 * point.low, 100 * point.high);
      add("END");
    }
  };
  const auto add_plot = [&](const char* kind, std::size_t p, const std::vector<Curve>& curves) {
    add("plot {} notitle \\", kind == std::string_view("curve") ? "NaN" : "0 with lines lw 1.2 lc '#888888'");
    for (std::size_t c = 0; band && c < curves.size(); ++c)
      add(", ${}_{}_{} using 1:3:4 with filledcurves lc '{}' notitle \\", kind, p, c,
          style_of(curves[c]).colour);
    for (std::size_t c = 0; c < curves.size(); ++c) {
      const Style style = style_of(curves[c]);
      // At most about 25 marks on a curve, however often it was evaluated.
      add(", ${}_{}_{} using 1:2 with linespoints lw 2.5 lc '{}' dt {} pt {} ps 1.1 pi {} notitle \\", kind,
          p, c, style.colour, style.dash, style.mark, curves[c].points.size() / 25 + 1);
    }
    if (kind == std::string_view("curve") && p == 0)  // the one legend, of all panels
      for (const Style& style : styles)
        add(", NaN with linespoints lw 2.5 lc '{}' dt {} pt {} ps 1.1 title {} \\", style.colour, style.dash,
            style.mark, gnuplot_string(style.label));
    add("");
  };
  for (std::size_t p = 0; p < figure.panels.size(); ++p) {
    add_data("curve", p, figure.panels[p].curves);
    add_data("lead", p, figure.panels[p].leads);
  }
  add("set terminal {} size {},{} font 'DejaVu Sans,14'", terminal, layout.width, layout.height);
  add("set output {}", gnuplot_string(output));
  add("set border 3 lw 1.2 lc '#444444'\nset tics nomirror out scale 0.6 tc '#222222'\nset format '%g'");
  add("set grid lw 1 lt 1 lc '#E2E2E2'\nset style fill transparent solid 0.18 noborder");
  add("set xrange [0:{}]", last_round(figure));
  const bool marked = figure.weights_begin && *figure.weights_begin < last_round(figure);
  if (marked)
    add("set arrow 1 from {0}, graph 0 to {0}, graph 1 nohead dt (6,4) lw 1.6 lc '#444444'",
        *figure.weights_begin);
  add("set multiplot");
  add("set label 1 {} at screen {},{} center noenhanced font ',19'", gnuplot_string(figure.title), centre,
      1 - y_of(34));
  std::vector<std::string> remarks;
  if (!figure.remark.empty()) remarks.push_back(figure.remark);
  if (band) remarks.push_back(fmt::format("mean of {} seeds, band from lowest to highest", figure.seeds));
  if (leads)
    remarks.push_back(fmt::format("lead over {}{}", label_of(figure.baseline), band ? ", seed by seed" : ""));
  add("set label 2 {} at screen {},{} center noenhanced font ',13' tc '#555555'",
      gnuplot_string(fmt::format("{}", fmt::join(remarks, "; "))), centre, 1 - y_of(66));
  add("set key at screen {},{} center horizontal maxrows {} reverse Left samplen 3.5 width {} noenhanced",
      centre, 1 - y_of(82 + kLegendRow / 2 * layout.legend_rows), layout.legend_rows,
      figure.panels.front().curves.size() > 2 ? -3 : 0);  // gnuplot takes words to be wider than they are
  const auto panels = static_cast<int>(figure.panels.size());
  const double cell_width = (layout.width - left - right - gap * (layout.columns - 1)) / layout.columns;
  const double cell_height = (layout.height - top - bottom - gap * (layout.rows - 1)) / layout.rows;
  const AxisRange accuracy = accuracy_range(figure);
  const AxisRange lead = lead_range(figure);
  for (int p = 0; p < panels; ++p) {
    const auto at = static_cast<std::size_t>(p);
    const Panel& panel = figure.panels[at];
    const double x = left + (p % layout.columns) * (cell_width + gap);
    const double y = top + (p / layout.columns) * (cell_height + gap);  // from the top
    const double lead_y = y + cell_height - (leads ? kLeadHeight : 0);
    const auto place = [&](double from, double to) {
      add("set lmargin at screen {}\nset rmargin at screen {}\nset tmargin at screen {}\nset bmargin at "
          "screen {}",
          x_of(x), x_of(x + cell_width), 1 - y_of(from), 1 - y_of(to));
    };
    const char* round = p + layout.columns >= panels ? "round" : "";
    const bool leftmost = p % layout.columns == 0;
    place(y, lead_y - (leads ? 30 : 0));
    add("set title {} noenhanced font ',15' offset 0,-0.2", gnuplot_string(panel.title));
    add("set xlabel '{}'\nset format x '{}'", leads ? "" : round, leads ? "" : "%g");
    add("set ylabel '{}'\nset yrange [{}:{}]\nset ytics {}", leftmost ? "test accuracy (%)" : "",
        accuracy.low, accuracy.high, accuracy.tic);
    if (marked) {
      const bool late = 2 * *figure.weights_begin > last_round(figure);
      add("set label 3 'IT-signSGD begins to weigh votes' at {}, graph 0.06 {} offset {},0 font ',12' tc "
          "'#444444'",
          *figure.weights_begin, late ? "right" : "left", late ? "-0.8" : "0.8");
    }
    add_plot("curve", at, panel.curves);
    add("unset label\nunset key");
    if (!leads) continue;
    place(lead_y, y + cell_height);
    add("unset title\nset xlabel '{}'\nset format x '%g'", round);
    add("set ylabel '{}'\nset yrange [{}:{}]\nset ytics {}", leftmost ? "lead (points)" : "", lead.low,
        lead.high, lead.tic);
    add_plot("lead", at, panel.leads);
  }
  add("unset multiplot\nset output");
  return text;
}

}  // namespace

std::string figure_csv(const Figure& figure) {
  std::string csv =
      figure.panels_are +
      ",method,round,seeds,accuracy_mean,accuracy_min,accuracy_max,lead_mean,lead_min,lead_max\n";
  for (const Panel& panel : figure.panels)
    for (const Curve& curve : panel.curves) {
      const auto lead = std::ranges::find(panel.leads, curve.method, &Curve::method);
      for (const CurvePoint& point : curve.points) {
        fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{},{}", csv_field(panel.name), curve.method,
                       point.round, figure.seeds, point.mean, point.low, point.high);
        const auto* const at = lead == panel.leads.end() ? nullptr : point_of(*lead, point.round);
        csv += at == nullptr ? ",,,\n" : fmt::format(",{},{},{}\n", at->mean, at->low, at->high);
      }
    }
  return csv;
}

AxisRange accuracy_range(const Figure& figure) {
  double low = 100;
  double high = 0;
  for (const Panel& panel : figure.panels)
    for (const Curve& curve : panel.curves)
      for (const CurvePoint& point : curve.points) {
        low = std::min(low, 100 * point.low);
        high = std::max(high, 100 * point.high);
      }
  constexpr double kStep = 25;
  high = std::clamp(kStep * std::ceil(high / kStep), kStep, 100.0);
  low = std::clamp(kStep * std::floor(low / kStep), 0.0, high - kStep);
  return {low, high, high - low > kStep ? 10.0 : 5.0};
}

AxisRange lead_range(const Figure& figure) {
  double low = 0;
  double high = 0;
  for (const Panel& panel : figure.panels)
    for (const Curve& curve : panel.leads)
      for (const CurvePoint& point : curve.points) {
        low = std::min(low, 100 * point.low);
        high = std::max(high, 100 * point.high);
      }
  double tic = 1;
  const auto bottom = [&] { return std::floor(low / tic); };
  const auto top = [&] { return std::max(1.0, std::ceil(high / tic)); };
  for (const double larger : {2, 5, 10, 20, 50})
    if (top() - bottom() > 5) tic = larger;
  return {tic * bottom(), tic * top(), tic};
}

void draw_figure(const Figure& figure, const fs::path& folder, const std::string& stem) {
  assert(!figure.panels.empty());
  make_folder(folder);
  write_file_atomically(folder / (stem + ".csv"), figure_csv(figure));
  for (const auto& [ending, format] : {std::pair(".png", kPng), std::pair(".svg", kSvg)})
    draw_picture(folder / (stem + ending), format,
                 [&](const std::string& output) { return script(figure, format.terminal, output); });
}

}  // namespace signvote
