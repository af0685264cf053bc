// Draws a small line chart as SVG, for loss curves: one self-contained document without scripts or fonts.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace heed {

/// One line of a chart. Points are joined in the given order. The line has a gap where x or y is not finite
/// (or, on a logarithmic axis, not above zero).
struct ChartSeries {
  std::string name;
  std::vector<double> x, y;
  bool marks = false;  ///< draw a dot at every point, if the dots have enough space
};

struct LineChart {
  std::string title = {}, x_label = {}, y_label = {};
  std::vector<ChartSeries> series = {};
  bool log_y = false;
  int width = 760, height = 420;            // in pixels
  std::string lower_label = {};             ///< of the y axis of a second, lower panel over the same x
  std::vector<ChartSeries> lower = {};      ///< the lines of that panel; empty: no such panel
  std::optional<double> lower_most = {};    ///< upper limit of that panel's y axis
  bool log_x = false;                       ///< with a lower panel, x is linear
  static constexpr int kLowerHeight = 150;  // height that the lower panel adds
};

/// Returns the chart as an SVG document. A series without points is still in the legend; a chart without
/// points contains a note. Long series are reduced to the resolution of the width, keeping the lowest and
/// highest point of each step. Throws Error if a series has different numbers of x and y, or if the size is
/// below 200 × 120.
std::string line_chart_svg(const LineChart& chart);

}  // namespace heed
