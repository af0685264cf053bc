// The layout of a table's figure, the same for SVG and PNG: title and subtitle; labels of columns, which rise
// where they are wider than their columns; rows of shaded cells; the scale of colors; and the legend.
#pragma once

#include <string>
#include <vector>

#include "heed/plot/report.h"
#include "plot/canvas.h"

namespace heed::plot {

/// A label or a cell's text as it is shown, in at most 16 columns.
std::string cell_label(const std::string& text);
/// The colors of all numbers with a sign: from white to blue, and to orange below 0; gray for nan.
Rgb cell_color(double shade);
/// Whether dark text has more contrast than white on a color (WCAG's relative luminance).
bool takes_dark_text(Rgb color);

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

}  // namespace heed::plot
