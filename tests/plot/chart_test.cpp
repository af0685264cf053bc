// Line charts: what is drawn and where, and that no input breaks the picture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "heed/error.h"
#include "heed/plot/chart.h"
#include "plot/sample.h"
#include "reference/error.h"

namespace heed {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Returns the pixel coordinates of the first polyline.
std::vector<std::pair<double, double>> polyline(const std::string& svg) {
  const std::string start = "points=\"";
  const std::size_t begin = svg.find(start) + start.size();
  std::istringstream points(svg.substr(begin, svg.find('"', begin) - begin));
  std::vector<std::pair<double, double>> result;
  char comma = 0;
  for (double x = 0, y = 0; points >> x >> comma >> y;) result.emplace_back(x, y);
  return result;
}

TEST(Chart, PlacesPointsLinearly) {
  LineChart chart{"loss", "step", "loss", {{"train", {0, 50, 100}, {0, 5, 10}}}};
  const std::string svg = line_chart_svg(chart);
  const auto points = polyline(svg);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(points[1].first, (points[0].first + points[2].first) / 2, 0.11);
  EXPECT_NEAR(points[1].second, (points[0].second + points[2].second) / 2, 0.11);
  EXPECT_GT(points[0].second, points[2].second) << "larger values stand higher";
  for (const char* tick : {">0<", ">2<", ">10<", ">100<", ">train<", ">step<"})
    EXPECT_EQ(count(svg, tick) > 0, true) << tick;
}

TEST(Chart, LogarithmicAxisSpacesDecadesEvenly) {
  LineChart chart{"", "", "", {{"a", {0, 1, 2}, {1, 10, 100}}}, true};
  const auto points = polyline(line_chart_svg(chart));
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(points[1].second, (points[0].second + points[2].second) / 2, 0.11);
}

TEST(Chart, LogarithmicXPlacesPowersEvenly) {
  LineChart chart{"", "", "", {{"a", {1, 10, 100}, {1, 2, 3}}}};
  chart.log_x = true;
  const auto points = polyline(line_chart_svg(chart));
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(points[1].first, (points[0].first + points[2].first) / 2, 0.11);
}

TEST(Chart, GapsWhereThereIsNoNumber) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  LineChart chart{"", "", "", {{"a", {0, 1, 2, 3, 4, 5, 6}, {1, 2, nan, 3, inf, 4, 5}}}};
  const std::string svg = line_chart_svg(chart);
  EXPECT_EQ(count(svg, "<polyline"), 2u);
  EXPECT_EQ(count(svg, "<circle"), 1u) << "a point alone is a dot";
  EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0u);
  chart.series[0].y = {1, 2, -1, 3, 0, 4, 5};
  chart.log_y = true;
  EXPECT_EQ(count(line_chart_svg(chart), "<polyline"), 2u);
}

TEST(Chart, EmptyChartsSaySo) {
  EXPECT_EQ(count(line_chart_svg({"t", "x", "y", {}}), ">no data<"), 1u);
  const std::string svg =
      line_chart_svg({"t", "x", "y", {{"none yet", {}, {}}, {"bad", {1}, {std::nan("")}}}, true});
  EXPECT_EQ(count(svg, ">no data<"), 1u);
  EXPECT_EQ(count(svg, ">none yet<"), 1u);
}

TEST(Chart, ConstantSeriesAndHugeValues) {
  for (const double value : {0.0, 3.5, -2.0, 1e300, 1e-300}) {
    for (const bool log : {false, true}) {
      const std::string svg = line_chart_svg({"", "", "", {{"a", {1, 2}, {value, value}}}, log});
      EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0u) << value;
      EXPECT_LT(svg.size(), 20000u) << value;
    }
  }
}

TEST(Chart, LongSeriesKeepTheirPeaks) {
  ChartSeries series{"a", {}, {}};
  for (int i = 0; i < 200000; ++i) {
    series.x.push_back(i);
    series.y.push_back(i == 123456 ? 100.0 : std::sin(i * 0.001));
  }
  const std::string svg = line_chart_svg({"", "", "", {series}});
  EXPECT_LT(svg.size(), 60000u);
  double top = 1e9;
  for (const auto& point : polyline(svg)) top = std::min(top, point.second);
  EXPECT_NEAR(top, 60, 0.2) << "the one peak reaches the top of the plot";
}

TEST(Chart, MarksPointsAndHasALowerPanelOfItsOwnScale) {
  LineChart chart{.series = {{"loss", {0, 100}, {1, 2}}, {"dev", {0, 50, 100}, {2, 1, 1}, true}}};
  EXPECT_EQ(count(line_chart_svg(chart), "<circle"), 3u);
  chart.lower_label = "BLEU";
  chart.lower = {{"score", {50, 100}, {0, 40}, true}};
  const std::string svg = line_chart_svg(chart);
  EXPECT_EQ(count(svg, "<circle"), 5u);
  EXPECT_EQ(count(svg, "<polyline"), 3u);
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 760 570\""));
  EXPECT_THAT(svg, HasSubstr(">BLEU</text>"));
  EXPECT_THAT(svg, HasSubstr(">score</text>"));
  // The first panel ends at y = 368; the second is between 402 (value 40) and 518 (value 0).
  EXPECT_THAT(svg, HasSubstr("points=\"404.0,518.0 740.0,402.0\""));
  // Scores that reach or slightly exceed 100, on an axis that may end there.
  chart.lower[0].y = {97, 100 + 1e-13};
  EXPECT_THAT(line_chart_svg(chart), HasSubstr(">101</text>"));
  chart.lower_most = 100;
  EXPECT_THAT(line_chart_svg(chart), AllOf(HasSubstr(">100</text>"), Not(HasSubstr(">101</text>"))));
  chart.lower[0].x.push_back(1);
  EXPECT_ERROR(line_chart_svg(chart), "expected as many x as y in series `");
}

TEST(Chart, ManyMarksAreLeftOut) {
  ChartSeries series{"dev", {}, {}, true};
  for (int i = 0; i < 200; ++i) series.x.push_back(i), series.y.push_back(i);
  EXPECT_EQ(count(line_chart_svg({.series = {series}}), "<circle"), 0u);
}

TEST(Chart, EscapesNames) {
  const std::string svg = line_chart_svg({"a < b & \"c\"", "\x01", "y", {{"</svg>", {0, 1}, {0, 1}}}});
  EXPECT_EQ(count(svg, "a &lt; b &amp; &quot;c&quot;"), 1u);
  EXPECT_EQ(count(svg, "&lt;/svg&gt;"), 1u);
  EXPECT_EQ(svg.find('\x01'), std::string::npos);
}

TEST(Chart, BadInputThrows) {
  EXPECT_ERROR(line_chart_svg({"", "", "", {{"a", {1, 2}, {1}}}}),
               "expected as many x as y in series `a`, got 2 and 1");
  EXPECT_ERROR(line_chart_svg({"", "", "", {}, false, 100, 100}),
               "expected a size of at least 200 x 120, got 100 x 100");
}

}  // namespace
}  // namespace heed
