// Line charts: the scale of each axis with round ticks, then the lines, then the legend.
#include "heed/score/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>

#include "heed/error.h"

namespace heed {
namespace {

// Okabe and Ito's palette, distinguishable for colour-blind readers (yellow left out: too faint on white).
constexpr std::array<const char*, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#333333"};
constexpr double kLeft = 68, kTop = 60, kBottom = 52, kRight = 20;

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default:
        // XML has no way to write control characters.
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

/// A linear or logarithmic map from values to 0..1, widened to round ends, with its ticks.
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

/// 1, 2 or 5 times a power of ten, so that `range` has about `count` steps.
double round_step(double range, int count) {
  const double raw = range / count, power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power * 1.0001) return factor * power;
  }
  return 10 * power;
}

void set_linear_ticks(Axis& axis, int count, bool widen) {
  const double step = round_step(axis.high - axis.low, count);
  if (widen) {
    axis.low = std::floor(axis.low / step) * step;
    axis.high = std::ceil(axis.high / step) * step;
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
  // The ends go out to the nearest candidates, so that every line has a labelled tick above and below it.
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

/// The axis that holds all values of `member` in points that can be shown.
Axis make_axis(const LineChart& chart, bool vertical) {
  Axis axis, other;
  axis.log = vertical && chart.log_y;
  other.log = !vertical && chart.log_y;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const ChartSeries& series : chart.series) {
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
    set_linear_ticks(axis, vertical ? 6 : 8, vertical);
  }
  return axis;
}

std::string tick_label(double value) {
  if (std::abs(value) >= 1e6) return fmt::format("{:.6g}M", value / 1e6);
  if (std::abs(value) >= 1e3) return fmt::format("{:.6g}k", value / 1e3);
  // A tick at zero can come out as 1e-17.
  return std::abs(value) < 1e-12 ? "0" : fmt::format("{:.6g}", value);
}

struct Point {
  double x, y;
};

/// Every run of neighbouring points that can be shown, in pixels.
std::vector<std::vector<Point>> runs_of(const ChartSeries& series, const Axis& x, const Axis& y, double width,
                                        double height) {
  std::vector<std::vector<Point>> runs(1);
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (x.shows(series.x[i]) && y.shows(series.y[i])) {
      runs.back().push_back(
          {kLeft + x.place(series.x[i]) * width, kTop + (1 - y.place(series.y[i])) * height});
    } else if (!runs.back().empty()) {
      runs.emplace_back();
    }
  }
  if (runs.back().empty()) runs.pop_back();
  return runs;
}

/// Of the neighbours that fall on one pixel column the first, lowest, highest and last.
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
      : chart_(chart),
        x_(make_axis(chart, false)),
        y_(make_axis(chart, true)),
        width_(chart.width - kLeft - kRight),
        height_(chart.height - kTop - kBottom) {}

  std::string write() {
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"12\" fill=\"#333\">\n",
        chart_.width, chart_.height);
    put("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    grid();
    labels();
    bool any = false;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) any = line(i) || any;
    if (!any) text(kLeft + width_ / 2, kTop + height_ / 2, "middle", "no data");
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

  void grid() {
    for (const double tick : y_.ticks) {
      const double y = kTop + (1 - y_.place(tick)) * height_;
      put("<path d=\"M{:.1f} {:.1f}h{:.1f}\" stroke=\"#e4e4e4\"/>\n", kLeft, y, width_);
      text(kLeft - 8, y + 4, "end", tick_label(tick));
    }
    for (const double tick : x_.ticks) {
      const double x = kLeft + x_.place(tick) * width_;
      put("<path d=\"M{:.1f} {:.1f}v5\" stroke=\"#888\"/>\n", x, kTop + height_);
      text(x, kTop + height_ + 18, "middle", tick_label(tick));
    }
    put("<path d=\"M{:.1f} {:.1f}h{:.1f}\" stroke=\"#888\"/>\n", kLeft, kTop + height_, width_);
  }

  void labels() {
    text(kLeft, 22, "start", chart_.title, " font-size=\"15\" font-weight=\"600\"");
    text(kLeft + width_ / 2, chart_.height - 12, "middle", chart_.x_label);
    put("<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        kTop + height_ / 2, escape(chart_.y_label));
  }

  bool line(std::size_t index) {
    const char* colour = kColours[index % kColours.size()];
    const auto runs = runs_of(chart_.series[index], x_, y_, width_, height_);
    for (const auto& run : runs) {
      if (run.size() == 1) {
        put("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", run[0].x, run[0].y, colour);
        continue;
      }
      put("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" stroke-linejoin=\"round\" points=\"",
          colour);
      const char* separator = "";
      for (const Point& point : thin(run)) {
        put("{}{:.1f},{:.1f}", separator, point.x, point.y);
        separator = " ";
      }
      put("\"/>\n");
    }
    return !runs.empty();
  }

  /// In a row under the title, where no line can pass.
  void legend() {
    double left = kLeft;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const std::string& name = chart_.series[i].name;
      if (name.empty()) continue;
      put("<path d=\"M{:.1f} 40h20\" stroke=\"{}\" stroke-width=\"3\"/>\n", left,
          kColours[i % kColours.size()]);
      text(left + 26, 44, "start", name);
      const auto is_lead = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
      left += 48 + 7.0 * static_cast<double>(std::count_if(name.begin(), name.end(), is_lead));
    }
  }

  const LineChart& chart_;
  Axis x_, y_;
  double width_, height_;
  std::string out_;
};

}  // namespace

std::string line_chart_svg(const LineChart& chart) {
  if (chart.width < 200 || chart.height < 120) {
    throw Error(
        fmt::format("chart: expected a size of at least 200 x 120, got {} x {}", chart.width, chart.height));
  }
  for (const ChartSeries& series : chart.series) {
    if (series.x.size() == series.y.size()) continue;
    throw Error(fmt::format("chart: expected as many x as y in series `{}`, got {} and {}", series.name,
                            series.x.size(), series.y.size()));
  }
  return ChartWriter(chart).write();
}

}  // namespace heed
