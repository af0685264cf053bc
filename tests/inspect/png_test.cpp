// The PNG figure, read back by libpng.
#include <gtest/gtest.h>
#include <png.h>

#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/inspect/picture.h"
#include "inspect/colour.h"
#include "inspect/sample.h"

namespace heed {
namespace {

struct Pixels {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
  inspect::Rgb at(std::int64_t x, std::int64_t y) const {
    const auto i = static_cast<std::size_t>(3 * (y * width + x));
    return {rgb[i], rgb[i + 1], rgb[i + 2]};
  }
};

Pixels decode_png(const std::string& file) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&png, file.data(), file.size()), 0);
  png.format = PNG_FORMAT_RGB;
  Pixels pixels{png.width, png.height, std::vector<std::uint8_t>(PNG_IMAGE_SIZE(png))};
  EXPECT_NE(png_image_finish_read(&png, nullptr, pixels.rgb.data(), 0, nullptr), 0);
  return pixels;
}

TEST(Png, EveryCellHasTheColourOfItsWeight) {
  const std::vector<float> weights{0, 0.25f, 1, -0.5f, 0.5f, 0.75f};
  for (const Palette palette : {Palette::blue, Palette::red, Palette::grey}) {
    const Pixels pixels = decode_png(
        attention_png(one_map({"a", "b"}, {"x", "y", "z"}, weights), {.width = 78, .palette = palette}));
    EXPECT_EQ(pixels.width, 78);  // margins of 8, a frame of 1, cells of 20
    EXPECT_EQ(pixels.height, 58);
    for (std::int64_t i = 0; i < 6; ++i) {
      const inspect::Rgb got = pixels.at(19 + i % 3 * 20, 19 + i / 3 * 20);
      EXPECT_EQ(inspect::hex(got), inspect::hex(inspect::shade(
                                       static_cast<double>(weights[static_cast<std::size_t>(i)]), palette)));
    }
  }
}

TEST(Png, SizesFitOrAreRefused) {
  EXPECT_GT(decode_png(attention_png(sample_picture(5, 7))).width, 2 * 7 * 3);
  EXPECT_LE(decode_png(attention_png(sample_picture(5, 7), {.width = 120})).width, 120);
  EXPECT_THROW(attention_png(sample_picture(5, 70), {.width = 120}), Error);
}

TEST(Svg, HasTheWidthAndColoursAskedFor) {
  const AttentionPicture picture = one_map({"a"}, {"x", "y"}, {0.5f, -1});
  const std::string svg = attention_svg(picture, {.width = 640, .palette = Palette::grey});
  EXPECT_NE(svg.find("width=\"640\""), std::string::npos);
  EXPECT_NE(svg.find(inspect::hex(inspect::shade(0.5, Palette::grey))), std::string::npos);
  EXPECT_NE(svg.find(inspect::hex(inspect::shade(-1, Palette::grey))), std::string::npos);
}

}  // namespace
}  // namespace heed
