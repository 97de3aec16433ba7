// The paper's Figure 1: accuracy over rounds, one panel per batch mode, one curve per method. A curve is
// the mean over seeds and shows their spread. gnuplot draws it; the CSV holds the same numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace signvote {

struct CurvePoint {
  std::uint64_t round = 0;
  double mean = 0;  // test accuracy in [0, 1], mean over seeds
  double low = 0;   // the lowest and the highest of the seeds
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

/// A heading and one line per point: batch mode, method, round, seeds, and the mean, lowest and highest
/// accuracy. These are in [0, 1], with as many digits as it takes to read back the same double.
std::string figure_csv(const Figure& figure);

/// The range of the accuracy axis in percent. All panels have the same one, so that they can be compared.
/// It ends at multiples of 5. The means of the first tenth of the rounds do not count, because curves start
/// low.
struct AccuracyRange {
  double low = 0;
  double high = 100;
};
AccuracyRange accuracy_range(const Figure& figure);

/// Writes FOLDER/STEM.csv and, with gnuplot, FOLDER/STEM.png and FOLDER/STEM.svg. Each file is written
/// whole or not at all. Throws DataError if gnuplot is missing (naming the Debian package) or fails.
/// REQUIRES: the figure has a panel.
void draw_figure(const Figure& figure, const std::filesystem::path& folder, const std::string& stem);

}  // namespace signvote
