// The PNG figure, read back by libpng. Nothing depends on which fonts a machine has, but that there is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/plot/picture.h"
#include "plot/color.h"
#include "plot/decoded_png.h"
#include "plot/fonts.h"
#include "plot/sample.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using plot::Rgb;
using ::testing::HasSubstr;

constexpr Rgb kFrame{0xc4, 0xc4, 0xc4}, kWhite{0xff, 0xff, 0xff};

struct Area {
  std::int64_t left = 0, top = 0, width = 0, height = 0;
};

/// The first map from the top, inside its frame and the white line in that.
Area first_map(const Pixels& pixels) {
  constexpr std::int64_t kRun = 20;
  for (std::int64_t y = 0; y < pixels.height; ++y) {
    for (std::int64_t x = 0, run = 0; x < pixels.width; ++x) {
      run = pixels.at(x, y) == kFrame ? run + 1 : 0;
      if (run < kRun) continue;
      const std::int64_t left = x - kRun + 1;
      std::int64_t right = x, bottom = y, line = 1;
      while (right + 1 < pixels.width && pixels.at(right + 1, y) == kFrame) ++right;
      while (bottom + 1 < pixels.height && pixels.at(left, bottom + 1) == kFrame) ++bottom;
      while (pixels.at(left + line, y + line) == kFrame) ++line;
      return {left + line + 1, y + line + 1, right - left - 1 - 2 * line, bottom - y - 1 - 2 * line};
    }
  }
  ADD_FAILURE() << "no frame";
  return {};
}

/// How many pixels of an area are not white.
std::int64_t ink(const Pixels& pixels, const Area& area) {
  std::int64_t n = 0;
  for (std::int64_t y = area.top; y < area.top + area.height; ++y) {
    for (std::int64_t x = area.left; x < area.left + area.width; ++x) n += pixels.at(x, y) == kWhite ? 0 : 1;
  }
  return n;
}

std::string png_error(const AttentionPicture& picture, const FigureStyle& style) {
  return error_of([&] { attention_png(picture, style); });
}

TEST(Png, EveryCellHasTheColorOfItsWeight) {
  const std::vector<float> weights{0, 0.25f, 1, -0.5f, 0.5f, 0.75f};
  for (const Palette palette : {Palette::blue, Palette::red, Palette::gray}) {
    for (const std::int64_t scale : {1, 2}) {
      const FigureStyle style{static_cast<double>(300 * scale), palette};
      const Pixels pixels = decode_png(attention_png(one_map({"a", "b"}, {"x", "y", "z"}, weights), style));
      EXPECT_EQ(pixels.width, 300 * scale);
      const Area map = first_map(pixels);
      const std::int64_t cell = 34 * scale;
      EXPECT_EQ(map.width, 3 * cell - scale) << "without the gap after the last";
      EXPECT_EQ(map.height, 2 * cell - scale);
      for (std::int64_t i = 0; i < 6; ++i) {
        const Rgb color = plot::shade(static_cast<double>(weights[static_cast<std::size_t>(i)]), palette);
        const std::int64_t left = map.left + i % 3 * cell, top = map.top + i / 3 * cell;
        EXPECT_EQ(plot::hex(pixels.at(left, top)), plot::hex(color));
        EXPECT_EQ(plot::hex(pixels.at(left + cell - scale - 1, top + cell - scale - 1)), plot::hex(color));
      }
    }
  }
}

TEST(Png, ShadesOfManyNumbersAreThoseOfOne) {
  for (const Palette palette : {Palette::blue, Palette::red, Palette::gray}) {
    plot::Shades shades(palette);
    for (int i = -30011; i <= 30011; ++i) {
      const float value = static_cast<float>(i) / 30000.0f;
      ASSERT_EQ(shades(value), plot::shade(static_cast<double>(value), palette)) << value;
    }
  }
}

TEST(Png, HasTheTextOfTheSvg) {
  AttentionPicture picture = one_map({"one", "two", "three"}, {"x", "y"}, {1, 0, 0, 1, 0.5f, 0.5f});
  const Area untitled = first_map(decode_png(attention_png(picture)));
  picture.title = "A title";
  const Pixels pixels = decode_png(attention_png(picture));
  const Area map = first_map(pixels);
  EXPECT_EQ(map.top, untitled.top + 34);
  EXPECT_GT(ink(pixels, {20, 20, 200, 20}), 100) << "the title";
  EXPECT_GT(ink(pixels, {20, 54, 200, 14}), 100) << "of the section";
  for (std::int64_t row = 0; row < 3; ++row)
    EXPECT_GT(ink(pixels, {20, map.top + 34 * row, map.left - 25, 34}), 10) << "label of row " << row;
  for (std::int64_t column = 0; column < 2; ++column)
    EXPECT_GT(ink(pixels, {map.left + 34 * column, map.top - 20, 34, 15}), 10)
        << "label of column " << column;
  EXPECT_GT(ink(pixels, {0, map.top + map.height + 5, pixels.width, 16}), 50) << "caption";
  const std::int64_t legend = pixels.height - 56;
  EXPECT_GT(ink(pixels, {0, legend, pixels.width, 18}), 160 * 10) << "bar";
  EXPECT_GT(ink(pixels, {20, legend, 8, 18}), 5) << "0";
  EXPECT_GT(ink(pixels, {200, legend, 20, 18}), 5) << "1";
  EXPECT_GT(ink(pixels, {20, pixels.height - 30, 200, 20}), 100) << "what rows and columns are";
}

TEST(Png, TextStaysInTheFigure) {
  AttentionPicture picture = one_map({std::string(60, 'm'), "b"}, {"x", std::string(60, 'W')}, {1, 0, 0, 1});
  picture.title = std::string(200, 'M') + " " + std::string(31, 'W') + " and more";
  picture.maps[0].kind = std::string(80, 'W');
  picture.tokens = {{picture.maps[0].kind, picture.tokens["cross"]}};
  const Pixels pixels = decode_png(attention_png(picture));
  EXPECT_EQ(ink(pixels, {0, 0, 10, pixels.height}), 0);
  EXPECT_EQ(ink(pixels, {pixels.width - 10, 0, 10, pixels.height}), 0);
}

TEST(Png, AnyTokenCanBeDrawn) {
  EXPECT_GT(decode_png(attention_png(nasty_picture())).width, 300);
  const std::vector<std::string> words{"чай",     "猫が座った", "سلام",       "שלום",
                                       "e\u0301", "สวัสดี",       "\U0001F600", "\U0010FFFD"};
  AttentionPicture picture = one_map({"a"}, words, std::vector<float>(words.size(), 0.5f));
  picture.title = "Чай 茶";
  EXPECT_GT(ink(decode_png(attention_png(picture)), {20, 20, 60, 20}), 50);
  picture.maps[0].weights[0] = std::nanf("");
  const Pixels pixels = decode_png(attention_png(picture));
  const Area map = first_map(pixels);
  EXPECT_EQ(plot::hex(pixels.at(map.left, map.top)), "#cccccc");
}

TEST(Png, MarksStandOverTheirLetters) {
  plot::Fonts fonts;
  EXPECT_EQ(fonts.width_of("", false), 0);
  EXPECT_EQ(fonts.width_of("x\u0302", false), fonts.width_of("x", false)) << "no such letter is composed";
  EXPECT_EQ(fonts.width_of("\u200d", false), 0);
  EXPECT_GT(fonts.width_of("\U0010FFFD", false), 0) << "a box";
  EXPECT_NEAR(fonts.width_of("ab", true), fonts.width_of("a", true) + fonts.width_of("b", true), 1e-12);
}

TEST(Png, SizesFitOrAreRefused) {
  EXPECT_GT(decode_png(attention_png(sample_picture(5, 7))).width, 2 * 7 * 26);
  EXPECT_LE(decode_png(attention_png(sample_picture(5, 7), {.width = 320})).width, 320);
  const Pixels wide = decode_png(attention_png(sample_picture(5, 7), {.width = 1500}));
  EXPECT_LE(wide.width, 1500);
  EXPECT_GT(wide.width, 1450) << "the figure grows, by whole pixels of cells";
  const Pixels small = decode_png(attention_png(sample_picture(5, 100), {.width = 330}));
  EXPECT_LE(small.width, 330);
  EXPECT_EQ(first_map(small).width, 100) << "cells of one pixel";
  EXPECT_EQ(
      png_error(sample_picture(5, 7), {.width = 120}),
      "attention picture: expected a width of at least 300 pixels for its maps, labels and legends, got "
      "120 (choose fewer heads, keys or measures, or a larger width)");
  EXPECT_THAT(png_error(sample_picture(5, 200), {.width = 320}), HasSubstr("expected a width of at least 4"));
  EXPECT_THAT(png_error(sample_picture(5, 7), {.width = 20000}), HasSubstr("or a smaller width"));
}

TEST(Png, WithoutFontsThePackageIsNamed) {
  const TemporaryFolder folder;
  spill(folder / "no-fonts.conf", "<?xml version=\"1.0\"?><fontconfig/>");
  setenv("FONTCONFIG_FILE", (folder / "no-fonts.conf").c_str(), 1);
  const std::string message = png_error(sample_picture(1, 2), {});
  unsetenv("FONTCONFIG_FILE");
  EXPECT_THAT(message, HasSubstr("no font found"));
  EXPECT_THAT(message, HasSubstr("fonts-dejavu-core"));
}

TEST(Svg, HasTheWidthAndColorsAskedFor) {
  const AttentionPicture picture = one_map({"a"}, {"x", "y"}, {0.5f, -1});
  const std::string svg = attention_svg(picture, {.width = 640, .palette = Palette::gray});
  EXPECT_NE(svg.find("width=\"640\""), std::string::npos);
  EXPECT_NE(svg.find(plot::hex(plot::shade(0.5, Palette::gray))), std::string::npos);
  EXPECT_NE(svg.find(plot::hex(plot::shade(-1, Palette::gray))), std::string::npos);
}

}  // namespace
}  // namespace heed
