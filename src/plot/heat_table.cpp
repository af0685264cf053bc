// Tables of shaded cells.
#include "heed/plot/heat_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>

#include "heed/error.h"
#include "heed/text/unicode.h"
#include "plot/color.h"
#include "plot/labels.h"

namespace heed {
namespace {

constexpr std::size_t kMostTableCells = 100000;
constexpr double kEdge = 20, kFont = 12, kCharacter = 7.3, kRowHeight = 22;
constexpr int kLongestCell = 16;

std::string label_of(const std::string& text) {
  return text.empty() ? text : plot::shorten(plot::visible(text), kLongestCell);
}

double room_for(int columns) { return kCharacter * columns + 12; }

// The colors of all numbers with a sign: from white to blue, and to orange below 0; gray for nan.
plot::Rgb cell_color(double shade) {
  return std::isfinite(shade) ? plot::shade(shade, Palette::blue) : plot::Rgb{204, 204, 204};
}

// A number with a minus sign, as figures have it; other texts as they are.
std::string with_minus(const std::string& text) {
  const bool negative = text.size() > 1 && text[0] == '-' &&
                        (std::isdigit(static_cast<unsigned char>(text[1])) != 0 || text[1] == '.');
  return negative ? "−" + text.substr(1) : text;
}

// Whether dark text has more contrast than white on a color (WCAG's relative luminance).
bool takes_dark_text(plot::Rgb color) {
  const auto linear = [](std::uint8_t value) {
    const double c = value / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b) > 0.18;
}

std::string shaded_text(const std::string& text, plot::Rgb color) {
  const int ink = takes_dark_text(color) ? 30 : 97;
  return fmt::format("\x1b[{};48;2;{};{};{}m{}\x1b[0m", ink, color.r, color.g, color.b, text);
}

// The legend of a table whose cells are shaded.
std::string whole_legend(const HeatTable& table) {
  return table.legend + (table.shade_legend.empty() ? "" : "; ") + table.shade_legend;
}

class HeatTableWriter {
 public:
  explicit HeatTableWriter(const HeatTable& table) : table_(table) {
    for (const std::string& row : table.rows) left_ = std::max(left_, room_for(display_width(label_of(row))));
    left_ = std::max(left_, room_for(display_width(table.rows_title)));
    for (const std::string& column : table.columns) tall_ = std::max(tall_, display_width(label_of(column)));
    for (const auto& row : table.cells) {
      for (const HeatCell& cell : row) wide_ = std::max(wide_, display_width(label_of(cell.text)));
    }
    cell_ = std::max(26.0, room_for(wide_));
    flat_ = tall_ <= wide_ + 1;  // labels fit above their columns
    above_ = flat_ ? kRowHeight : kCharacter * tall_ * 0.87 + 16;
  }

  std::string write() {
    const double across = cell_ * static_cast<double>(table_.columns.size());
    const double right = flat_ ? 0 : kCharacter * tall_ * 0.5;
    const std::string legend = whole_legend(table_);
    const double subtitle = table_.subtitle.empty() ? 0 : 18;
    const double title = (table_.title.empty() ? 0 : 30) + subtitle;
    const double width = std::max({2 * kEdge + left_ + across + right,
                                   2 * kEdge + 9.5 * display_width(plot::visible(table_.title)),
                                   2 * kEdge + 6.6 * display_width(legend)});
    const double top = kEdge + title + above_;
    const double height = top + kRowHeight * static_cast<double>(table_.rows.size()) + 34 + kEdge / 2;
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} "
        "{1:.0f}\" font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', 'Noto Sans', sans-serif\" "
        "fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        std::ceil(width), std::ceil(height));
    if (!table_.title.empty())
      put("<text x=\"{}\" y=\"{}\" font-size=\"16\" font-weight=\"600\">{}</text>\n", kEdge, kEdge + 14,
          markup(table_.title));
    if (!table_.subtitle.empty()) {
      const int columns = static_cast<int>((width - 2 * kEdge) / 6.6);
      put("<text x=\"{}\" y=\"{}\" font-size=\"12\" fill=\"#555\">{}</text>\n", kEdge,
          kEdge + title - subtitle + 6,
          plot::escape_markup(plot::shorten(plot::visible(table_.subtitle), columns)));
    }
    write_labels(top);
    for (std::size_t row = 0; row < table_.cells.size(); ++row) {
      for (std::size_t column = 0; column < table_.cells[row].size(); ++column) write_cell(row, column, top);
    }
    put("<text x=\"{}\" y=\"{:.1f}\" font-size=\"11\" fill=\"#555\">{}</text>\n", kEdge,
        height - kEdge / 2 - 4, markup(legend));
    return out_ + "</svg>\n";
  }

 private:
  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  static std::string markup(const std::string& text) { return plot::escape_markup(plot::visible(text)); }

  void write_labels(double top) {
    put("<g font-size=\"{}\" fill=\"#555\">\n<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kFont, kEdge + left_ - 6, top - 7, markup(table_.rows_title));
    for (std::size_t i = 0; i < table_.columns.size(); ++i) {
      const double x = kEdge + left_ + (static_cast<double>(i) + 0.5) * cell_;
      const std::string label = plot::escape_markup(label_of(table_.columns[i]));
      if (flat_) {
        put("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x, top - 7, label);
      } else {
        put("<text transform=\"translate({:.1f} {:.1f}) rotate(-60)\">{}</text>\n", x + 4, top - 6, label);
      }
    }
    for (std::size_t i = 0; i < table_.rows.size(); ++i)
      put("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kEdge + left_ - 6,
          top + (static_cast<double>(i) + 0.5) * kRowHeight + 4,
          plot::escape_markup(label_of(table_.rows[i])));
    put("</g>\n");
  }

  void write_cell(std::size_t row, std::size_t column, double top) {
    const HeatCell& cell = table_.cells[row][column];
    const double x = kEdge + left_ + static_cast<double>(column) * cell_,
                 y = top + static_cast<double>(row) * kRowHeight;
    put("<g><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>", x, y,
        cell_ - 1, kRowHeight - 1, plot::hex(cell_color(cell.shade)));
    put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"middle\" fill=\"{}\">{}</text>",
        x + cell_ / 2 - 0.5, y + kRowHeight / 2 + 4, kFont,
        takes_dark_text(cell_color(cell.shade)) ? "#222" : "#fff",
        plot::escape_markup(label_of(with_minus(cell.text))));
    put("<title>{}</title></g>\n", markup(cell.tooltip.empty() ? cell.text : cell.tooltip));
  }

  const HeatTable& table_;
  double left_ = 0, cell_ = 0, above_ = 0;
  int tall_ = 0, wide_ = 0;
  bool flat_ = true;
  std::string out_;
};

}  // namespace

std::string heat_table_text(const HeatTable& table, bool color) {
  std::vector<std::vector<std::string>> lines{{table.rows_title}};
  for (const std::string& column : table.columns) lines.front().push_back(label_of(column));
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    lines.push_back({label_of(table.rows[row])});
    for (const HeatCell& cell : table.cells[row]) lines.back().push_back(label_of(cell.text));
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
              (shaded ? shaded_text(padded, cell_color(table.cells[row - 1][i - 1].shade)) : padded);
    }
    text += '\n';
  }
  const std::string legend = color ? whole_legend(table) : table.legend;
  return text + (legend.empty() ? "" : plot::visible(legend) + "\n");
}

std::string heat_table_svg(const HeatTable& table) {
  std::size_t count = 0;
  for (const auto& row : table.cells) count += row.size();
  if (count == 0 || count > kMostTableCells)
    throw Error(
        fmt::format("picture: expected from 1 to {} cells in an SVG, got {}", kMostTableCells, count));
  return HeatTableWriter(table).write();
}

}  // namespace heed
