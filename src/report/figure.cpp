#include "report/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/process.h"
#include "base/text.h"
#include "signvote/error.h"

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
                             {"agree", "IT-signSGD by agreement", "#CC79A7", "(1,2)", 13},
                             {"mv", "signSGD-MV", "#D55E00", "(10,4)", 9}};

Style style_of(const Curve& curve) {
  for (const Style& style : kStyles)
    if (style.method == curve.method) return style;
  return {curve.method, curve.method, "#000000", "(3,3)", 5};
}

std::uint64_t last_round(const Figure& figure) {
  std::uint64_t last = 1;
  for (const Panel& panel : figure.panels)
    for (const Curve& curve : panel.curves)
      for (const CurvePoint& point : curve.points) last = std::max(last, point.round);
  return last;
}

// gnuplot expands nothing between single quotes. A quote is doubled; a line break is not allowed.
std::string gnuplot_string(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') result += '\'';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + "'";
}

struct Layout {
  int columns, rows, width, height;
};

Layout layout_of(std::size_t panels) {
  if (panels == 1) return {1, 1, 900, 600};
  const int rows = static_cast<int>(panels + 1) / 2;
  return {2, rows, 1600, 120 + rows * 440};
}

// gnuplot's script for the whole picture. The margins are set by hand, so that all panels have the same
// size whether or not they carry the axes' names.
std::string script(const Figure& figure, std::string_view terminal, const std::string& output) {
  const Layout layout = layout_of(figure.panels.size());
  const auto x_of = [&](double pixels) { return pixels / layout.width; };
  const auto y_of = [&](double pixels) { return pixels / layout.height; };
  const AccuracyRange range = accuracy_range(figure);
  const bool band = figure.seeds > 1;
  const double left = 108, right = 32, bottom = 80, top = band ? 130 : 104, gap = 96;  // pixels
  const double centre = x_of((layout.width + left - right) / 2);

  std::string text = "set encoding utf8\n";
  const auto add = [&text]<typename... Args>(fmt::format_string<Args...> line, Args&&... args) {
    fmt::format_to(std::back_inserter(text), line, std::forward<Args>(args)...);
    text += '\n';
  };
  for (std::size_t p = 0; p < figure.panels.size(); ++p) {
    for (std::size_t c = 0; c < figure.panels[p].curves.size(); ++c) {
      add("$curve_{}_{} << END", p, c);
      for (const CurvePoint& point : figure.panels[p].curves[c].points)
        add("{} {} {} {}", point.round, 100 * point.mean, 100 * point.low, 100 * point.high);
      add("END");
    }
  }
  add("set terminal {} size {},{} font 'DejaVu Sans,14'", terminal, layout.width, layout.height);
  add("set output {}", gnuplot_string(output));
  add("set border 3 lw 1.2 lc '#444444'\nset tics nomirror out scale 0.6 tc '#222222'\nset format '%g'");
  add("set grid lw 1 lt 1 lc '#E2E2E2'\nset style fill transparent solid 0.18 noborder");
  add("set key bottom right reverse Left samplen 3.5 spacing 1.25 noenhanced opaque width 1");
  add("set xrange [0:{}]\nset yrange [{}:{}]", last_round(figure), range.low, range.high);
  add("set title font ',15' offset 0,-0.2");
  add("set label 1 {} at screen {},{} center noenhanced font ',19'", gnuplot_string(figure.title), centre,
      1 - y_of(34));
  if (band)
    add("set label 2 'mean of {} seeds; the band spans the lowest to the highest' at screen {},{} center "
        "font ',13' tc '#555555'",
        figure.seeds, centre, 1 - y_of(66));
  add("set multiplot layout {},{} margins {},{},{},{} spacing {},{}", layout.rows, layout.columns, x_of(left),
      1 - x_of(right), y_of(bottom), 1 - y_of(top), x_of(gap), y_of(gap));
  const auto panels = static_cast<int>(figure.panels.size());
  for (int p = 0; p < panels; ++p) {
    const Panel& panel = figure.panels[static_cast<std::size_t>(p)];
    if (p == 1) add("unset label");
    add("set title {} noenhanced", gnuplot_string(panel.title));
    add("set xlabel '{}'", p + layout.columns >= panels ? "round" : "");
    add("set ylabel '{}'", p % layout.columns == 0 ? "test accuracy (%)" : "");
    add("plot NaN notitle \\");
    for (std::size_t c = 0; band && c < panel.curves.size(); ++c)
      add(", $curve_{}_{} using 1:3:4 with filledcurves lc '{}' notitle \\", p, c,
          style_of(panel.curves[c]).colour);
    for (std::size_t c = 0; c < panel.curves.size(); ++c) {
      const Style style = style_of(panel.curves[c]);
      // At most about 25 marks on a curve, however often it was evaluated.
      add(", $curve_{}_{} using 1:2 with linespoints lw 2.5 lc '{}' dt {} pt {} ps 1.1 pi {} title {} \\", p,
          c, style.colour, style.dash, style.mark, panel.curves[c].points.size() / 25 + 1,
          gnuplot_string(style.label));
    }
    add("");
  }
  add("unset multiplot\nset output");
  return text;
}

// `ending` are the last bytes of a complete picture. They are checked because gnuplot does not notice a
// full disk.
void draw(const Figure& figure, const fs::path& path, std::string_view terminal, std::string_view ending) {
  const fs::path drawing = path.string() + ".drawing";
  std::string content;
  std::string problem;
  try {
    // -d ignores the settings in the user's home. The script is /dev/stdin and not "-", because with "-"
    // gnuplot would go on after an error.
    const ProcessResult gnuplot = run_process({"gnuplot", "-d", "/dev/stdin"}, path.parent_path(),
                                              script(figure, terminal, drawing.filename().string()));
    if (gnuplot.exit_code != 0)
      problem = fmt::format("gnuplot ended with code {}: {}", gnuplot.exit_code, one_line(gnuplot.output));
    else if (content = read_text_file(drawing); !content.ends_with(ending))
      problem = "gnuplot wrote half a picture; is the disk full?";
  } catch (const DataError& error) {
    problem = error.what();
  }
  std::error_code ignored;
  fs::remove(drawing, ignored);
  if (!problem.empty())
    throw DataError(fmt::format("cannot draw '{}': {}; gnuplot comes with the Debian package gnuplot-nox",
                                path.string(), problem));
  write_file_atomically(path, content);
}

}  // namespace

std::string figure_csv(const Figure& figure) {
  std::string csv = "batch_mode,method,round,seeds,accuracy_mean,accuracy_min,accuracy_max\n";
  for (const Panel& panel : figure.panels)
    for (const Curve& curve : panel.curves)
      for (const CurvePoint& point : curve.points)
        fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{},{}\n", panel.batch_mode, curve.method,
                       point.round, figure.seeds, point.mean, point.low, point.high);
  return csv;
}

AccuracyRange accuracy_range(const Figure& figure) {
  const std::uint64_t climb = last_round(figure) / 10;
  double low = 100;
  double high = 0;
  for (const Panel& panel : figure.panels)
    for (const Curve& curve : panel.curves)
      for (const CurvePoint& point : curve.points) {
        if (point.round >= climb) low = std::min(low, 100 * point.mean);
        high = std::max(high, 100 * point.high);
      }
  high = std::clamp(5 * std::ceil(high / 5), 5.0, 100.0);
  low = std::clamp(5 * std::floor(low / 5), 0.0, high - 5);
  return {low, high};
}

void draw_figure(const Figure& figure, const fs::path& folder, const std::string& stem) {
  assert(!figure.panels.empty());
  make_folder(folder);
  write_file_atomically(folder / (stem + ".csv"), figure_csv(figure));
  draw(figure, folder / (stem + ".png"), "pngcairo background 'white'", "IEND\xAE\x42\x60\x82");
  draw(figure, folder / (stem + ".svg"), "svg background 'white'", "</svg>\n\n");
}

}  // namespace signvote
