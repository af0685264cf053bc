// Draws line charts: the scale of each axis with round ticks, then the lines, then the legend.
#include "heed/plot/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

#include "core/utf8.h"
#include "heed/error.h"

namespace heed {
namespace {

// Okabe and Ito's palette, distinguishable for color-blind readers (without yellow, which is too faint on
// white).
constexpr std::array<const char*, 7> kColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                "#e69f00", "#56b4e9", "#333333"};
constexpr double kLeft = 68, kTop = 60, kBottom = 52, kRight = 20;
constexpr double kGap = 34;      // between the panels
constexpr double kMarkRoom = 9;  // minimum distance between dots, in pixels

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default:
        // XML cannot represent control characters.
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

/// A linear or logarithmic map from values to [0, 1], extended to round ends, with its ticks.
struct Axis {
  double low = 0, high = 1;
  bool log = false;
  std::vector<double> ticks;

  bool shows(double value) const { return std::isfinite(value) && (!log || value > 0); }
  double place(double value) const {
    if (log) return (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
    return (value - low) / (high - low);
  }
};

/// Returns 1, 2 or 5 times a power of ten such that `range` has about `count` steps.
double round_step(double range, int count) {
  const double raw = range / count, power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power * 1.0001) return factor * power;
  }
  return 10 * power;
}

void set_linear_ticks(Axis& axis, int count, bool widen, double most) {
  const double step = round_step(axis.high - axis.low, count);
  if (widen) {
    axis.low = std::floor(axis.low / step) * step;
    axis.high = std::min(std::ceil(axis.high / step) * step, most);
  }
  for (double k = std::ceil(axis.low / step - 1e-9); k * step <= axis.high + 1e-9 * step; ++k) {
    axis.ticks.push_back(k * step);
  }
}

void set_log_ticks(Axis& axis) {
  const double decades = std::log10(axis.high / axis.low);
  const std::vector<double> factors = decades <= 3 ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
  const int stride = std::max(1, static_cast<int>(std::ceil(decades / 9)));
  const int first = static_cast<int>(std::floor(std::log10(axis.low))) - 1;
  const int last = static_cast<int>(std::ceil(std::log10(axis.high))) + 1;
  std::vector<double> candidates;
  for (int exponent = first; exponent <= last; ++exponent) {
    if (exponent % stride != 0) continue;
    for (const double factor : factors) candidates.push_back(factor * std::pow(10.0, exponent));
  }
  // The ends are extended to the nearest candidates, so that every line has a labeled tick above and below
  // it.
  const double low = axis.low, high = axis.high;
  for (const double tick : candidates) {
    if (tick <= low * 1.0000001) axis.low = tick;
  }
  for (auto tick = candidates.rbegin(); tick != candidates.rend(); ++tick) {
    if (*tick >= high * 0.9999999) axis.high = *tick;
  }
  for (const double tick : candidates) {
    if (tick >= axis.low && tick <= axis.high) axis.ticks.push_back(tick);
  }
}

/// Which axes are logarithmic.
struct Logarithmic {
  bool x = false, y = false;
};

/// Returns an axis that covers the drawable points of all series. A linear vertical axis ends at `most` or
/// below.
Axis make_axis(const std::vector<ChartSeries>& all, Logarithmic logs, bool vertical, int ticks,
               double most = std::numeric_limits<double>::infinity()) {
  Axis axis, other;
  axis.log = vertical ? logs.y : logs.x;
  other.log = vertical ? logs.x : logs.y;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const ChartSeries& series : all) {
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      const double value = vertical ? series.y[i] : series.x[i];
      if (!axis.shows(value) || !other.shows(vertical ? series.x[i] : series.y[i])) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (low > high) {
    low = axis.log ? 0.1 : 0.0;
    high = 1.0;
  }
  if (high - low <= 1e-12 * std::max(std::abs(low), std::abs(high))) {
    const double margin = low == 0 ? 1.0 : std::abs(low) * 0.1;
    low -= margin;
    high += margin;
  }
  axis.low = low;
  axis.high = high;
  if (axis.log) {
    set_log_ticks(axis);
  } else {
    set_linear_ticks(axis, vertical ? ticks : 8, vertical, most);
  }
  return axis;
}

std::string tick_label(double value) {
  if (std::abs(value) >= 1e6) return fmt::format("{:.6g}M", value / 1e6);
  if (std::abs(value) >= 1e3) return fmt::format("{:.6g}k", value / 1e3);
  // A tick at zero may come out as 1e-17.
  return std::abs(value) < 1e-12 ? "0" : fmt::format("{:.6g}", value);
}

struct Point {
  double x, y;
};

/// The lines that share one y axis.
struct Panel {
  const std::vector<ChartSeries>& series;
  const std::string& label;
  Axis y;
  double top, height;
  std::size_t first_color;
};

/// Returns every run of consecutive drawable points, in pixels.
std::vector<std::vector<Point>> runs_of(const ChartSeries& series, const Axis& x, const Panel& panel,
                                        double width) {
  std::vector<std::vector<Point>> runs(1);
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (x.shows(series.x[i]) && panel.y.shows(series.y[i])) {
      runs.back().push_back({kLeft + x.place(series.x[i]) * width,
                             panel.top + (1 - panel.y.place(series.y[i])) * panel.height});
    } else if (!runs.back().empty()) {
      runs.emplace_back();
    }
  }
  if (runs.back().empty()) runs.pop_back();
  return runs;
}

/// Of consecutive points in the same pixel column, keeps the first, lowest, highest and last.
std::vector<Point> thin(const std::vector<Point>& run) {
  std::vector<Point> kept;
  std::size_t begin = 0;
  while (begin < run.size()) {
    std::size_t end = begin, low = begin, high = begin;
    const double column = std::floor(run[begin].x);
    for (; end < run.size() && std::floor(run[end].x) == column; ++end) {
      if (run[end].y < run[low].y) low = end;
      if (run[end].y > run[high].y) high = end;
    }
    std::array<std::size_t, 4> picks = {begin, std::min(low, high), std::max(low, high), end - 1};
    for (std::size_t i = 0; i < picks.size(); ++i) {
      if (i == 0 || picks[i] != picks[i - 1]) kept.push_back(run[picks[i]]);
    }
    begin = end;
  }
  return kept;
}

class ChartWriter {
 public:
  explicit ChartWriter(const LineChart& chart)
      : chart_(chart), width_(chart.width - kLeft - kRight), x_(x_axis(chart)) {
    const double height = chart.height - kTop - kBottom;
    panels_.push_back({chart.series, chart.y_label,
                       make_axis(chart.series, {chart.lower.empty() && chart.log_x, chart.log_y}, true, 6),
                       kTop, height, 0});
    if (chart.lower.empty()) return;
    const double most = chart.lower_most.value_or(std::numeric_limits<double>::infinity());
    panels_.push_back({chart.lower, chart.lower_label, make_axis(chart.lower, {}, true, 3, most),
                       kTop + height + kGap, LineChart::kLowerHeight - kGap, chart.series.size()});
  }

  std::string write() {
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"12\" fill=\"#333\">\n",
        chart_.width, bottom() + kBottom);
    put("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    text(kLeft, 22, "start", chart_.title, " font-size=\"15\" font-weight=\"600\"");
    text(kLeft + width_ / 2, bottom() + kBottom - 12, "middle", chart_.x_label);
    for (const Panel& panel : panels_) draw(panel);
    for (const double tick : x_.ticks) {
      text(kLeft + x_.place(tick) * width_, bottom() + 18, "middle", tick_label(tick));
    }
    legend();
    return out_ + "</svg>\n";
  }

 private:
  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void text(double x, double y, const char* anchor, const std::string& words, const char* more = "") {
    put("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
        escape(words));
  }

  /// Shared by all panels, so that a step is at the same x in each.
  static Axis x_axis(const LineChart& chart) {
    if (chart.lower.empty()) return make_axis(chart.series, {chart.log_x, chart.log_y}, false, 0);
    std::vector<ChartSeries> all = chart.series;
    all.insert(all.end(), chart.lower.begin(), chart.lower.end());
    return make_axis(all, {}, false, 0);
  }

  double bottom() const { return panels_.back().top + panels_.back().height; }

  void draw(const Panel& panel) {
    grid(panel);
    bool any = false;
    for (std::size_t i = 0; i < panel.series.size(); ++i) {
      any = line(panel, panel.series[i], color(panel.first_color + i)) || any;
    }
    if (!any) text(kLeft + width_ / 2, panel.top + panel.height / 2, "middle", "no data");
  }

  static const char* color(std::size_t index) { return kColors[index % kColors.size()]; }

  void grid(const Panel& panel) {
    for (const double tick : panel.y.ticks) {
      const double y = panel.top + (1 - panel.y.place(tick)) * panel.height;
      put("<path d=\"M{:.1f} {:.1f}h{:.1f}\" stroke=\"#e4e4e4\"/>\n", kLeft, y, width_);
      text(kLeft - 8, y + 4, "end", tick_label(tick));
    }
    const double foot = panel.top + panel.height;
    for (const double tick : x_.ticks) {
      put("<path d=\"M{:.1f} {:.1f}v5\" stroke=\"#888\"/>\n", kLeft + x_.place(tick) * width_, foot);
    }
    put("<path d=\"M{:.1f} {:.1f}h{:.1f}\" stroke=\"#888\"/>\n", kLeft, foot, width_);
    put("<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        panel.top + panel.height / 2, escape(panel.label));
  }

  bool line(const Panel& panel, const ChartSeries& series, const char* color) {
    const auto runs = runs_of(series, x_, panel, width_);
    for (const auto& run : runs) {
      const bool room = width_ >= kMarkRoom * static_cast<double>(series.x.size());
      if (run.size() == 1 || (series.marks && room)) dots(run, color);
      if (run.size() == 1) continue;
      put("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" stroke-linejoin=\"round\" points=\"",
          color);
      const char* separator = "";
      for (const Point& point : thin(run)) {
        put("{}{:.1f},{:.1f}", separator, point.x, point.y);
        separator = " ";
      }
      put("\"/>\n");
    }
    return !runs.empty();
  }

  void dots(const std::vector<Point>& points, const char* color) {
    for (const Point& point : points) {
      put("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", point.x, point.y, color);
    }
  }

  /// Draws the legend in a row under the title, where it covers no line.
  void legend() {
    double left = kLeft;
    for (const Panel& panel : panels_) {
      for (std::size_t i = 0; i < panel.series.size(); ++i) {
        const std::string& name = panel.series[i].name;
        if (name.empty()) continue;
        put("<path d=\"M{:.1f} 40h20\" stroke=\"{}\" stroke-width=\"3\"/>\n", left,
            color(panel.first_color + i));
        text(left + 26, 44, "start", name);
        left += 48 + 7.0 * static_cast<double>(std::count_if(name.begin(), name.end(), is_utf8_start));
      }
    }
  }

  const LineChart& chart_;
  double width_;
  Axis x_;
  std::vector<Panel> panels_;
  std::string out_;
};

}  // namespace

std::string line_chart_svg(const LineChart& chart) {
  if (chart.width < 200 || chart.height < 120) {
    throw Error(
        fmt::format("chart: expected a size of at least 200 x 120, got {} x {}", chart.width, chart.height));
  }
  for (const auto* panel : {&chart.series, &chart.lower}) {
    for (const ChartSeries& series : *panel) {
      if (series.x.size() == series.y.size()) continue;
      throw Error(fmt::format("chart: expected as many x as y in series `{}`, got {} and {}", series.name,
                              series.x.size(), series.y.size()));
    }
  }
  return ChartWriter(chart).write();
}

}  // namespace heed
