// A small line chart as SVG, for loss curves and the like: one self-contained picture, no script, no font
// file.
#pragma once

#include <string>
#include <vector>

namespace heed {

/// One line of a chart. Points are joined in the order given; where x or y is not finite (or not above zero
/// on a logarithmic axis) the line has a gap.
struct ChartSeries {
  std::string name;
  std::vector<double> x, y;
};

struct LineChart {
  std::string title, x_label, y_label;
  std::vector<ChartSeries> series;
  bool log_y = false;
  int width = 760, height = 420;  // in pixels
};

/// The chart as an SVG document. A series without points keeps its place in the legend; a chart without any
/// point says so. Long series are thinned to what the width can show, keeping each step's lowest and highest
/// point. Throws Error when a series has not as many x as y, or the size is below 200 × 120.
std::string line_chart_svg(const LineChart& chart);

}  // namespace heed
