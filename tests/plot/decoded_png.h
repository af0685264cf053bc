// PNG files read back by libpng.
#pragma once

#include <gtest/gtest.h>
#include <png.h>

#include <string>
#include <vector>

#include "plot/color.h"

namespace heed {

struct Pixels {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
  plot::Rgb at(std::int64_t x, std::int64_t y) const {
    const auto i = static_cast<std::size_t>(3 * (y * width + x));
    return {rgb[i], rgb[i + 1], rgb[i + 2]};
  }
};

inline Pixels decode_png(const std::string& file) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&png, file.data(), file.size()), 0);
  png.format = PNG_FORMAT_RGB;
  Pixels pixels{png.width, png.height, std::vector<std::uint8_t>(PNG_IMAGE_SIZE(png))};
  EXPECT_NE(png_image_finish_read(&png, nullptr, pixels.rgb.data(), 0, nullptr), 0);
  return pixels;
}

}  // namespace heed
