// Figures of tables.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "heed/error.h"
#include "heed/plot/report.h"
#include "plot/canvas.h"
#include "plot/figure.h"
#include "plot/labels.h"
#include "plot/pdf_canvas.h"
#include "plot/pixel_canvas.h"
#include "plot/svg_canvas.h"

namespace heed {
namespace plot {
namespace {

constexpr std::size_t kMostTableCells = 100000;
constexpr double kRowHeight = 22, kTableTitleLine = 20, kNoteLine = 16, kScaleLine = 22, kScaleBar = 140;
constexpr double kWidePadding = 12, kNarrowPadding = 6, kNarrowestCell = 26, kNarrowestTable = 300;
constexpr double kRise = 0.87, kRun = 0.5;  // of a label at 60 degrees
constexpr double kFivePoints = 5 * 96.0 / 72;
constexpr TextStyle kTableTitle{16, 9.5, Ink::dark, Anchor::start, true};
constexpr TextStyle kSubtitle{12, 6.6}, kNote{11, 6.2};
constexpr TextStyle kCellText{12, 7.3, Ink::dark, Anchor::middle};
constexpr TextStyle kColumnLabel{12, 7.3, Ink::gray, Anchor::middle};
constexpr TextStyle kRowLabel{12, 7.3, Ink::gray, Anchor::end};

// A number with a minus sign, as figures have it; other texts as they are.
std::string with_minus(const std::string& text) {
  const bool negative = text.size() > 1 && text[0] == '-' &&
                        (std::isdigit(static_cast<unsigned char>(text[1])) != 0 || text[1] == '.');
  return negative ? "−" + text.substr(1) : text;
}

// The same of the numbers in a sentence.
std::string with_minus_signs(std::string text) {
  for (std::size_t at = 0; (at = text.find(" -", at)) != std::string::npos; ++at) {
    if (at + 2 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 2])) != 0)
      text.replace(at + 1, 1, "−");
  }
  return text;
}

double lines_height(const std::vector<std::string>& lines, double line) {
  return line * static_cast<double>(lines.size());
}

void check_cells(const ReportTable& table) {
  std::size_t count = 0;
  for (const auto& row : table.cells) count += row.size();
  if (count == 0 || count > kMostTableCells)
    throw Error(
        fmt::format("table: expected from 1 to {} cells in a figure, got {}", kMostTableCells, count));
}

// The layout of a table's figure, the same for SVG, PDF and PNG: title and subtitle; labels of columns, which
// rise where they are wider than their columns; rows of shaded cells; the scale of colors; and the legend.
class TableFigure {
 public:
  /// `width` as in TableStyle. The table must outlive the figure.
  TableFigure(const ReportTable& table, double width, const Canvas& canvas);

  double width() const { return width_; }
  double height() const { return height_; }
  void draw(Canvas& canvas) const;

 private:
  void measure_columns(double padding, const Canvas& canvas);
  void place_legend(const Canvas& canvas);
  double table_width() const;
  void draw_labels(double top, Canvas& canvas) const;
  void draw_cells(double top, Canvas& canvas) const;
  void draw_legend(double top, Canvas& canvas) const;

  const ReportTable& table_;
  std::vector<double> columns_;  // widths
  double left_ = 0, above_ = 0, beyond_ = 0;
  double width_ = 0, height_ = 0;
  bool flat_ = true;  // labels fit above their columns
  bool shaded_ = false, negative_ = false;
  std::string scale_text_;
  std::vector<std::string> title_, subtitle_, notes_;
};

TableFigure::TableFigure(const ReportTable& table, double width, const Canvas& canvas) : table_(table) {
  check_cells(table);
  for (const auto& row : table.cells) {
    for (const ReportCell& cell : row) {
      shaded_ = shaded_ || cell.shade != 0;
      negative_ = negative_ || cell.shade < 0;
    }
  }
  measure_columns(kWidePadding, canvas);
  if (width > 0 && table_width() > width) measure_columns(kNarrowPadding, canvas);
  const double most = width * kCellText.size / kFivePoints;
  if (width > 0 && table_width() > most) {
    const double least = table_width() * kFivePoints / kCellText.size;
    throw Error(
        fmt::format("table: expected a width of at least {:.0f} mm ({:.0f} pixels) for text of 5 points, got "
                    "{:.0f} mm ({:.0f} pixels)",
                    std::ceil(least * 25.4 / 96), std::ceil(least), width * 25.4 / 96, width));
  }
  width_ = std::ceil(std::max({table_width(), kNarrowestTable, width}));
  const double room = width_ - 2 * kFigureMargin;
  title_ = lines_of(table.title, room, kTableTitle, canvas);
  subtitle_ = lines_of(table.subtitle, room, kSubtitle, canvas);
  place_legend(canvas);
  height_ = std::ceil(2 * kFigureMargin + lines_height(title_, kTableTitleLine) +
                      lines_height(subtitle_, kNoteLine) + above_ +
                      kRowHeight * static_cast<double>(table.rows.size()) + 8 + (shaded_ ? kScaleLine : 0) +
                      lines_height(notes_, kNoteLine));
}

double TableFigure::table_width() const {
  double width = 2 * kFigureMargin + left_ + beyond_;
  for (const double column : columns_) width += column;
  return width;
}

// All columns are as wide as the widest, unless that is much wider than another.
void TableFigure::measure_columns(double padding, const Canvas& canvas) {
  left_ = canvas.width_of(table_.rows_title, kRowLabel) + padding;
  for (const std::string& row : table_.rows)
    left_ = std::max(left_, canvas.width_of(cell_label(row), kRowLabel) + padding);
  columns_.assign(table_.columns.size(), kNarrowestCell);
  for (const auto& row : table_.cells) {
    for (std::size_t i = 0; i < row.size(); ++i)
      columns_[i] =
          std::max(columns_[i], canvas.width_of(cell_label(with_minus(row[i].text)), kCellText) + padding);
  }
  const auto [least, most] = std::minmax_element(columns_.begin(), columns_.end());
  if (*most <= 1.5 * *least) columns_.assign(columns_.size(), *most);
  flat_ = true;
  double longest = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const double label = canvas.width_of(cell_label(table_.columns[i]), kColumnLabel);
    flat_ = flat_ && label <= columns_[i] - 3;
    longest = std::max(longest, label);
    beyond_ = i + 1 < columns_.size() ? 0 : std::max(0.0, kRun * label + 10 - columns_[i] / 2);
  }
  if (flat_) beyond_ = 0;
  above_ = flat_ ? kRowHeight : kRise * longest + 16;
}

// What the colors mean stands beside their scale where it fits, else in the legend.
void TableFigure::place_legend(const Canvas& canvas) {
  const double room = width_ - 2 * kFigureMargin;
  std::string legend = table_.legend;
  scale_text_ = with_minus(table_.full_shade);
  if (shaded_ && !table_.shade_legend.empty()) {
    const std::string whole = scale_text_ + " \u00A0" + table_.shade_legend;
    if (canvas.width_of(whole + " −" + table_.full_shade, kNote) + kScaleBar + 12 <= room) {
      scale_text_ = whole;
    } else {
      legend = "shade: " + table_.shade_legend + (legend.empty() ? "" : "; ") + legend;
    }
  }
  notes_ = lines_of(with_minus_signs(legend), room, kNote, canvas);
}

void TableFigure::draw(Canvas& canvas) const {
  canvas.open(width_, height_);
  double y = kFigureMargin;
  for (const std::string& line : title_) {
    canvas.text({kFigureMargin, y + 12, line}, kTableTitle);
    y += kTableTitleLine;
  }
  for (const std::string& line : subtitle_) {
    canvas.text({kFigureMargin, y + 10, line}, kSubtitle);
    y += kNoteLine;
  }
  y += above_;
  draw_labels(y, canvas);
  draw_cells(y, canvas);
  y += kRowHeight * static_cast<double>(table_.rows.size()) + 8;
  if (shaded_) {
    draw_legend(y + 2, canvas);
    y += kScaleLine;
  }
  for (const std::string& line : notes_) {
    canvas.text({kFigureMargin, y + 11, line}, kNote);
    y += kNoteLine;
  }
}

void TableFigure::draw_labels(double top, Canvas& canvas) const {
  if (!table_.rows_title.empty())
    canvas.text({kFigureMargin + left_ - 6, top - 7, visible(table_.rows_title)}, kRowLabel);
  std::vector<PlacedText> rows, columns;
  double x = kFigureMargin + left_;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const PlacedText label{x + columns_[i] / 2 + (flat_ ? 0 : 4), top - (flat_ ? 7 : 6),
                           cell_label(table_.columns[i])};
    x += columns_[i];
    if (flat_) {
      canvas.text(label, kColumnLabel);
    } else {
      columns.push_back(label);
    }
  }
  TextStyle rising = kColumnLabel;
  rising.anchor = Anchor::start;
  if (!flat_) canvas.labels(columns, rising, true);
  for (std::size_t i = 0; i < table_.rows.size(); ++i)
    rows.push_back({kFigureMargin + left_ - 6, top + (static_cast<double>(i) + 0.5) * kRowHeight + 4,
                    cell_label(table_.rows[i])});
  canvas.labels(rows, kRowLabel, false);
}

void TableFigure::draw_cells(double top, Canvas& canvas) const {
  for (std::size_t row = 0; row < table_.cells.size(); ++row) {
    double x = kFigureMargin + left_;
    const double y = top + static_cast<double>(row) * kRowHeight;
    for (std::size_t i = 0; i < table_.cells[row].size(); ++i) {
      const ReportCell& cell = table_.cells[row][i];
      TextStyle style = kCellText;
      if (!takes_dark_text(cell_color(cell.shade))) style.ink = Ink::light;
      canvas.cell({{x, y, columns_[i] - 1, kRowHeight - 1},
                   cell_color(cell.shade),
                   {x + columns_[i] / 2 - 0.5, y + kRowHeight / 2 + 4, cell_label(with_minus(cell.text))},
                   visible(cell.tooltip.empty() ? cell.text : cell.tooltip)},
                  style);
      x += columns_[i];
    }
  }
}

void TableFigure::draw_legend(double top, Canvas& canvas) const {
  const std::string low = negative_ ? "−" + table_.full_shade : "0";
  const double bar = kFigureMargin + 6 + canvas.width_of(low, kNote);
  canvas.legend({negative_ ? -1.0 : 0.0,
                 bar,
                 top,
                 kScaleBar,
                 {kFigureMargin, top + 10, low},
                 {bar + 6 + kScaleBar, top + 10, scale_text_}},
                kNote);
}

}  // namespace
}  // namespace plot

std::string table_svg(const ReportTable& table, const TableStyle& style) {
  plot::SvgCanvas canvas(FigureStyle{.width = style.width, .palette = Palette::blue});
  plot::TableFigure(table, style.width, canvas).draw(canvas);
  return canvas.finish();
}

std::string table_pdf(const ReportTable& table, const TableStyle& style) {
  return plot::pdf_page(style.width, Palette::blue, [&](plot::Canvas& canvas) {
    plot::TableFigure(table, style.width, canvas).draw(canvas);
  });
}

std::string table_png(const ReportTable& table, const TableStyle& style) {
  plot::PixelCanvas canvas(Palette::blue);
  const plot::TableFigure figure(table, style.width, canvas);
  const double scale = style.resolution * (style.width > 0 ? style.width / figure.width() : 1);
  const double width = std::round(figure.width() * scale), height = std::round(figure.height() * scale);
  if (width * height > plot::kMostPixels)
    throw Error(
        fmt::format("table: expected at most {:.0f} pixels, got {:.0f} x {:.0f} (choose a smaller "
                    "width, or write SVG)",
                    plot::kMostPixels, width, height));
  canvas.set_scale(scale);
  figure.draw(canvas);
  return encode_png(canvas.width(), canvas.height(), canvas.rgb(),
                    style.width > 0 ? 96 * style.resolution : 0);
}

}  // namespace heed
