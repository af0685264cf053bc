// Tables of shaded cells as text.
#include "heed/plot/heat_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "heed/text/unicode.h"
#include "plot/heat_figure.h"
#include "plot/labels.h"

namespace heed {
namespace {

std::string shaded_text(const std::string& text, plot::Rgb color) {
  const int ink = plot::takes_dark_text(color) ? 30 : 97;
  return fmt::format("\x1b[{};48;2;{};{};{}m{}\x1b[0m", ink, color.r, color.g, color.b, text);
}

// The legend of a table whose cells are shaded.
std::string whole_legend(const HeatTable& table) {
  if (table.shade_legend.empty()) return table.legend;
  return table.legend + (table.legend.empty() ? "" : "; ") + "shade: " + table.shade_legend;
}

}  // namespace

std::string heat_table_text(const HeatTable& table, bool color) {
  std::vector<std::vector<std::string>> lines{{table.rows_title}};
  for (const std::string& column : table.columns) lines.front().push_back(plot::cell_label(column));
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    lines.push_back({plot::cell_label(table.rows[row])});
    for (const HeatCell& cell : table.cells[row]) lines.back().push_back(plot::cell_label(cell.text));
  }
  std::vector<int> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], display_width(line[i]));
  }
  std::string text = table.title.empty() ? "" : plot::visible(table.title) + "\n";
  for (std::size_t row = 0; row < lines.size(); ++row) {
    for (std::size_t i = 0; i < lines[row].size(); ++i) {
      const std::string padded = plot::pad_left(lines[row][i], widths[i]);
      const bool shaded = color && row > 0 && i > 0;
      text += (i > 0 ? "  " : "") +
              (shaded ? shaded_text(padded, plot::cell_color(table.cells[row - 1][i - 1].shade)) : padded);
    }
    text += '\n';
  }
  const std::string legend = color ? whole_legend(table) : table.legend;
  return text + (legend.empty() ? "" : plot::visible(legend) + "\n");
}

}  // namespace heed
