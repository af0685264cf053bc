// A table of shaded cells: of an analysis, as text for the terminal and as an SVG figure.
#pragma once

#include <string>
#include <vector>

namespace heed {

struct HeatCell {
  std::string text;
  double shade = 0;  ///< from -1 (red) over 0 (white) to 1 (blue)
  std::string tooltip = {};
};

struct HeatTable {
  std::string title, rows_title, legend;
  std::vector<std::string> rows, columns;    // labels
  std::vector<std::vector<HeatCell>> cells;  // [rows, columns]
};

/// Columns separated by two spaces, each as wide as its widest text; the texts of one line per row.
std::string heat_table_text(const HeatTable& table);

/// One self-contained figure. Throws Error if there are more than 100,000 cells, or no cell.
std::string heat_table_svg(const HeatTable& table);

}  // namespace heed
