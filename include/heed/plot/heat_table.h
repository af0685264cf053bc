// A table of shaded cells: of an analysis, as text for the terminal, as an SVG, PDF or PNG figure, and
// as numbers in CSV and NPZ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

struct HeatCell {
  std::string text;
  double shade = 0;  ///< from -1 (red) over 0 (white) to 1 (blue)
  std::string tooltip = {};
  std::optional<double> value = {};  ///< the number itself, where the cell is one
  std::optional<double> error = {};  ///< its standard error, where it is a mean
};

struct HeatTable {
  std::string title, rows_title, legend;
  std::string shade_legend = {};             // what the shades mean, where there are any
  std::string full_shade = "1";              // of a figure: the number that shade 1 stands for
  std::string subtitle = {};                 // of a figure: the model and the text
  std::vector<std::string> rows, columns;    // labels
  std::vector<std::vector<HeatCell>> cells;  // [rows, columns]
};

/// The title, columns separated by two spaces, each as wide as its widest text, with the texts of one line
/// per row, and the legend. `color` shades the cells as ANSI terminals do.
std::string heat_table_text(const HeatTable& table, bool color = false);

/// How a table is drawn.
struct HeatTableStyle {
  double width = 0;       ///< in pixels, 96 to the inch; 0: as much as the table takes
  double resolution = 2;  ///< of PNG: its pixels to each of these
};

/// One self-contained figure: the table under its title and subtitle, over a scale of its colors and its
/// legend. A table that is wider than `width` gets smaller text. Throws Error if that were below 5 points, if
/// there are more than 100,000 cells, or no cell.
std::string heat_table_svg(const HeatTable& table, const HeatTableStyle& style = {});

/// The same as one page of PDF, without tooltips. Also throws Error if the system has no font.
std::string heat_table_pdf(const HeatTable& table, const HeatTableStyle& style = {});

/// The same as PNG, without tooltips, which says how many of its pixels are an inch if `width` is given. Also
/// throws Error if there were more than 100 million pixels, or if the system has no font.
std::string heat_table_png(const HeatTable& table, const HeatTableStyle& style = {});

/// The numbers of a table, a line for each: row, column, value and standard error, under a header with the
/// table's titles. Fields with commas, quotes or line breaks are quoted (RFC 4180).
std::string heat_table_csv(const HeatTable& table);

/// The same as an NPZ file: `value` and `standard_error`, f64 [rows, columns], NaN where there is none, and
/// the labels `rows` and `columns` as Unicode strings.
std::string heat_table_npz(const HeatTable& table);

}  // namespace heed
