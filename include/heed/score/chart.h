// A small line chart as SVG, for loss curves: one self-contained document without scripts or fonts.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace heed {

/// One line of a chart. Points are joined in the order given; where x or y is not finite (or not above zero
/// on a logarithmic axis) the line has a gap.
struct ChartSeries {
  std::string name;
  std::vector<double> x, y;
  bool marks = false;  ///< a dot at every point, where there is room for dots
};

struct LineChart {
  std::string title = {}, x_label = {}, y_label = {};
  std::vector<ChartSeries> series = {};
  bool log_y = false;
  int width = 760, height = 420;            // in pixels
  std::string lower_label = {};             ///< of the y axis of a second, lower panel over the same x
  std::vector<ChartSeries> lower = {};      ///< its lines; none: no such panel
  std::optional<double> lower_most = {};    ///< the greatest value there can be: its axis ends there at most
  static constexpr int kLowerHeight = 150;  // what it adds to the height
};

/// The chart as an SVG document. A series without points is still in the legend; a chart without points
/// contains a note. Long series are reduced to the resolution of the width, keeping the lowest and highest
/// point of each step. Throws Error when a series has different numbers of x and y, or the size is below 200
/// × 120.
std::string line_chart_svg(const LineChart& chart);

}  // namespace heed
