// Tables of shaded cells as text, as figures and as numbers.
#include "heed/plot/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plot/color.h"
#include "plot/decoded_png.h"
#include "reference/error.h"

namespace heed {
namespace {

TEST(ReportTable, TextAndFigure) {
  const ReportTable table{.title = "A <title>",
                          .rows_title = "layer",
                          .legend = "what it is",
                          .shade_legend = "much",
                          .subtitle = "gpt2: ▁a text",
                          .rows = {"0", "10"},
                          .columns = {"a", "bb"},
                          .cells = {{{"1.0", 1.0}, {"0.5", 0.5}}, {{"-1", -1.0}, {"é<", 0.0, "tip"}}}};
  EXPECT_EQ(table_text(table),
            "A <title>\n"
            "layer    a   bb\n"
            "    0  1.0  0.5\n"
            "   10   -1   é<\n"
            "what it is\n");
  EXPECT_EQ(table_text(table, {.width = 10}),
            "A <title>\n"
            "layer    a\n"
            "    0  1.0\n"
            "   10   -1\n"
            "\n"
            "layer   bb\n"
            "    0  0.5\n"
            "   10   é<\n"
            "what it is\n");
  EXPECT_THAT(table_text(table, {.width = 9}), testing::EndsWith("\nwhat it\nis\n"));
  const std::string dark = table_text(table, {.width = 0, .color = true});
  EXPECT_THAT(dark, testing::ContainsRegex("\x1b\\[30;48;2;[0-9]+;[0-9]+;[0-9]+m1\\.0\x1b\\[0m"));  // bright
  EXPECT_THAT(dark, testing::ContainsRegex("\x1b\\[97;48;2;[0-9]+;[0-9]+;[0-9]+m é<\x1b\\[0m"));    // dark
  const std::string colored = table_text(table, {.width = 0, .color = true, .light = true});
  EXPECT_THAT(colored, testing::HasSubstr("what it is; shade: much\n"));
  EXPECT_THAT(colored,
              testing::ContainsRegex("\x1b\\[97;48;2;[0-9]+;[0-9]+;[0-9]+m1\\.0\x1b\\[0m"));  // on blue
  EXPECT_THAT(colored,
              testing::ContainsRegex("\x1b\\[30;48;2;[0-9]+;[0-9]+;[0-9]+m é<\x1b\\[0m"));  // on white
  const std::string svg = table_svg(table);
  EXPECT_THAT(svg, testing::StartsWith("<svg"));
  EXPECT_THAT(svg, testing::HasSubstr("A &lt;title&gt;"));
  EXPECT_THAT(svg, testing::HasSubstr("<title>tip</title>"));
  EXPECT_THAT(svg, testing::HasSubstr(">gpt2: ·a text</text>"));
  EXPECT_THAT(svg, testing::HasSubstr(">what it is</text>"));
  EXPECT_THAT(svg, testing::HasSubstr(">−1</text>\n<rect"));  // the scale, from −1 to 1
  EXPECT_THAT(svg, testing::HasSubstr(">1 \u00A0much</text>"));
  EXPECT_ERROR(table_svg({}), "cells in a figure, got 0");
}

TEST(ReportTable, NumbersAsCsvAndNpz) {
  const ReportTable table{
      .title = "",
      .rows_title = "head",
      .legend = "",
      .rows = {"0.1", "a,\"b"},
      .columns = {"x", "é"},
      .cells = {{{"1", 1, "", 1.5, 0.25}, {"note", 0}}, {{"2", 0, "", -2.0}, {"3", 0, "", 3e-9}}}};
  EXPECT_EQ(table_csv(table),
            "head,column,value,standard_error\n"
            "0.1,x,1.5,0.25\n"
            "\"a,\"\"b\",x,-2,\n"
            "\"a,\"\"b\",é,3e-09,\n");
  const std::string npz = table_npz(table);
  EXPECT_THAT(npz, testing::StartsWith("PK\x03\x04"));
  for (const char* name : {"value.npy", "standard_error.npy", "rows.npy", "columns.npy"})
    EXPECT_THAT(npz, testing::HasSubstr(name));
  EXPECT_THAT(npz, testing::HasSubstr("'descr': '<f8', 'fortran_order': False, 'shape': (2, 2)"));
  EXPECT_THAT(npz, testing::HasSubstr("'descr': '<U4', 'fortran_order': False, 'shape': (2,)"));
}

ReportTable wide_table(std::size_t columns) {
  ReportTable table{.title = "Wide",
                    .rows_title = "row",
                    .legend = "",
                    .rows = {"0"},
                    .columns = std::vector<std::string>(columns, "c"),
                    .cells = {std::vector<ReportCell>(columns, ReportCell{"0.25", 0.25})}};
  return table;
}

TEST(ReportTable, PngHasTheColorsOfSvg) {
  ReportTable table = wide_table(4);
  const std::string png = table_png(table);
  EXPECT_THAT(png, testing::StartsWith("\x89PNG"));
  const std::string svg = table_svg(table);
  EXPECT_THAT(svg, testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"300\""));
  const Pixels pixels = decode_png(png);
  EXPECT_EQ(pixels.width, 600);  // two pixels for each
  const plot::Rgb color = plot::shade(0.25, Palette::blue);
  EXPECT_THAT(svg, testing::HasSubstr("fill=\"" + plot::hex(color) + "\""));
  std::int64_t filled = 0;
  for (std::int64_t y = 0; y < pixels.height; ++y)
    for (std::int64_t x = 0; x < pixels.width; ++x) filled += pixels.at(x, y) == color ? 1 : 0;
  EXPECT_GT(filled, 4 * 20 * 20) << "four cells, but for their text";
  EXPECT_THAT(png, testing::Not(testing::HasSubstr("pHYs")));
}

TEST(ReportTable, WidthIsThatAskedFor) {
  const double column = 85 * 96 / 25.4;
  for (const std::size_t columns : {3u, 10u}) {
    EXPECT_THAT(table_svg(wide_table(columns), {.width = column}), testing::HasSubstr("width=\"321.26\""));
    const std::string png = table_png(wide_table(columns), {.width = column, .resolution = 300.0 / 96});
    EXPECT_EQ(decode_png(png).width, 1004);
    EXPECT_EQ(png.find(std::string("pHYs\x00\x00\x2e\x23\x00\x00\x2e\x23\x01", 13)),
              37u);  // 11811 to the metre
  }
  EXPECT_ERROR(table_svg(wide_table(40), {.width = column}), "for text of 5 points, got 85 mm");
  EXPECT_ERROR(table_png(wide_table(40), {.width = column}), "for text of 5 points, got 85 mm");
}

TEST(ReportTable, ScaleOfColorsSaysWhatFullColorIs) {
  ReportTable table = wide_table(4);
  table.full_shade = "0.53";
  table.legend = "sum -0.2, x-1 - 3";
  EXPECT_THAT(table_svg(table), testing::HasSubstr(">sum −0.2, x-1 - 3</text>"));
  EXPECT_THAT(table_svg(table),
              testing::AllOf(testing::HasSubstr(">0</text>\n<rect"), testing::HasSubstr(">0.53</text>")));
  table.cells[0][0].shade = -0.5;
  EXPECT_THAT(table_svg(table), testing::HasSubstr(">−0.53</text>\n<rect"));
  for (ReportCell& cell : table.cells[0]) cell.shade = 0;
  EXPECT_THAT(table_svg(table), testing::Not(testing::HasSubstr("linearGradient")));
}

}  // namespace
}  // namespace heed
