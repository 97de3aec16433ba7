// Accuracy over rounds, one panel per setting, one curve per method, and below each panel how far the
// methods are ahead of the first one. A curve is the mean over seeds and shows their spread. gnuplot draws
// it; the CSV holds the same numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace signvote {

struct CurvePoint {
  std::uint64_t round = 0;
  double mean = 0;  // over the seeds: test accuracy in [0, 1], or a difference of two
  double low = 0;   // the lowest and the highest of the seeds
  double high = 0;
};

struct Curve {
  std::string method;  // e.g. "mv"
  std::vector<CurvePoint> points;
};

struct Panel {
  std::string title;  // e.g. "Batch mode 4: 14 x 4, 904"
  std::string name;   // in the CSV, e.g. "4"
  std::vector<Curve> curves;
  std::vector<Curve> leads;  // over the curve that is not among them, seed by seed
};

struct Figure {
  std::string title;   // 75 characters fit above one panel
  std::string remark;  // in small letters, may be empty
  unsigned seeds = 1;
  std::string baseline;  // the method that leads are over
  std::vector<Panel> panels;
  std::string panels_are = "batch_mode";       // the heading of their names in the CSV
  std::optional<std::uint64_t> weights_begin;  // the round in which votes are first weighed, marked by a line
};

/// A heading and one line per point: the panel's name, method, round, seeds, the mean, lowest and highest
/// accuracy, and the lead's. These are shares of 1, with as many digits as it takes to read back the same
/// double.
std::string figure_csv(const Figure& figure);

/// The range of an axis in percent, or in points. All panels have the same one, so that they can be compared.
struct AxisRange {
  double low = 0;
  double high = 100;
  double tic = 10;
};
/// It has all accuracies, and ends at multiples of 25, so that figures of like runs have like axes.
AxisRange accuracy_range(const Figure& figure);
/// It has 0 and all leads.
AxisRange lead_range(const Figure& figure);

/// Writes FOLDER/STEM.csv and, with gnuplot, FOLDER/STEM.png and FOLDER/STEM.svg. Each file is written
/// whole or not at all. Throws DataError if gnuplot is missing (naming the Debian package) or fails.
/// REQUIRES: the figure has a panel.
void draw_figure(const Figure& figure, const std::filesystem::path& folder, const std::string& stem);

}  // namespace signvote
