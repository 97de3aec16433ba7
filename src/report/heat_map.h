// A table of shares as a picture of coloured cells, around one half: where something is right (or agrees)
// more often than not, and where less often. gnuplot draws it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace signvote {

struct HeatMap {
  std::string title;
  std::string remark;  // in small letters below the title
  std::string row_title;
  std::string column_title;
  std::string value_title;
  std::vector<std::string> rows;     // from the top
  std::vector<std::string> columns;  // from the left
  std::vector<double> values;        // in [0, 1], row by row; NaN: not known, and grey
  bool low_is_good = false;          // what is good is blue, what is bad orange, one half white
};

/// The colours reach as far from one half as the values do: 0.05 to 0.5, in steps of 0.05.
double heat_map_reach(const HeatMap& map);

/// Whether the cells have room for their values.
bool labels_cells(const HeatMap& map);

/// Writes the picture as a PNG file, whole or not at all. Throws DataError if gnuplot is missing (naming the
/// Debian package) or fails. REQUIRES: there are rows and columns, and a value for each cell.
void draw_heat_map(const HeatMap& map, const std::filesystem::path& file);

}  // namespace signvote
