// The paper's Figure 1: accuracy over rounds, one panel per batch mode, one curve per method, the
// mean over seeds with its spread. Drawn by gnuplot; the CSV holds the same numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace signvote {

struct CurvePoint {
  std::uint64_t round = 0;
  double mean = 0;  // test accuracy in [0, 1], mean over seeds
  double low = 0;   // the lowest and the highest seed's
  double high = 0;
};

struct Curve {
  std::string method;  // "mv" or "it"
  std::vector<CurvePoint> points;
};

struct Panel {
  std::string title;  // e.g. "mode 4: 14 x 4, 1 x 904"
  int batch_mode = 0;
  std::vector<Curve> curves;
};

struct Figure {
  std::string title;
  unsigned seeds = 1;
  std::vector<Panel> panels;
};

/// A heading and one line per point: batch mode, method, round, seeds, and the accuracy's mean, lowest
/// and highest, in [0, 1] and with all the digits it takes to read back the same double.
std::string figure_csv(const Figure& figure);

/// Percent. The same range for all panels, so that they compare; it ends at multiples of 5 and leaves
/// out how low the curves start: the means of the first tenth of the rounds do not count.
struct AccuracyRange {
  double low = 0;
  double high = 100;
};
AccuracyRange accuracy_range(const Figure& figure);

/// Writes FOLDER/STEM.csv, and with gnuplot FOLDER/STEM.png and FOLDER/STEM.svg. Each file appears
/// whole or not at all. Throws DataError if gnuplot is missing or fails, naming the Debian package.
/// REQUIRES: the figure has a panel.
void draw_figure(const Figure& figure, const std::filesystem::path& folder, const std::string& stem);

}  // namespace signvote
