// Converts OKLCh to sRGB, and mixes colors with those of images.
#include "plot/color.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace heed::plot {
namespace {

constexpr double kPi = 3.14159265358979, kRadians = kPi / 180;

std::uint8_t encode(double linear) {
  linear = std::clamp(linear, 0.0, 1.0);
  const double srgb = linear <= 0.0031308 ? 12.92 * linear : 1.055 * std::pow(linear, 1 / 2.4) - 0.055;
  return static_cast<std::uint8_t>(std::lround(255 * srgb));
}

Rgb from_oklch(double lightness, double chroma, double hue) {
  const double a = chroma * std::cos(hue), b = chroma * std::sin(hue);
  const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  return {encode(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          encode(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          encode(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

}  // namespace

Rgb shade(double value) {
  const double t = std::isnan(value) ? 0.0 : std::clamp(value, 0.0, 1.0);
  const double hue = (165 + 118 * t) * kRadians;
  const double chroma = 0.008 + 0.092 * std::sin(kPi * t) + 0.05 * t;
  return from_oklch(0.985 - 0.71 * t, chroma, hue);
}

Rgb shade(double value, Palette palette) {
  const double t = std::isnan(value) ? 0.0 : std::clamp(std::abs(value), 0.0, 1.0);
  if (palette == Palette::blue && !(value < 0)) return shade(value);
  const bool cold = palette == Palette::red && value < 0;
  const double hue = (cold ? 250 : palette == Palette::red ? 20 : 55) * kRadians;
  const bool gray = palette == Palette::gray && !(value < 0);
  return from_oklch(0.985 - 0.71 * t, gray ? 0 : 0.008 + 0.11 * std::sin(kPi * t) + 0.04 * t, hue);
}

Rgb terminal_shade(double value, bool light_ground) {
  if (light_ground) return shade(value, Palette::blue);
  const double t = std::isnan(value) ? 0.0 : std::clamp(std::abs(value), 0.0, 1.0);
  const double hue = (value < 0 ? 55 : 283 - 118 * t) * kRadians;
  return from_oklch(0.2 + 0.72 * t, 0.012 + 0.1 * std::sin(kPi * t), hue);
}

Rgb Shades::operator()(float value) {
  const double at = (std::clamp(static_cast<double>(value), -1.0, 1.0) + 1) * kRanges;
  const auto index = std::min(static_cast<std::size_t>(at), ranges_.size() - 1);
  Range& range = ranges_[index];
  if (!range.known) {
    const double begin = static_cast<double>(index) / kRanges - 1, end = begin + 1.0 / kRanges;
    range = {true, false, shade(begin, palette_)};
    range.even = range.color == shade(end, palette_);
  }
  return range.even ? range.color : shade(static_cast<double>(value), palette_);
}

Rgb cell_color(double shade) {
  return std::isfinite(shade) ? heed::plot::shade(shade, Palette::blue) : Rgb{204, 204, 204};
}

bool takes_dark_text(Rgb color) {
  const auto linear = [](std::uint8_t value) {
    const double c = value / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b) > 0.18;
}

Rgb mean_color(const InputImage& image, std::int64_t row, std::int64_t column) {
  return mean_color(image, {image.rows, image.columns}, row, column);
}

Rgb mean_color(const InputImage& image, const ImageGrid& grid, std::int64_t row, std::int64_t column) {
  const auto bounds = [](std::int64_t part, std::int64_t parts, std::int64_t size) {
    return std::pair(part * size / parts, std::max(part * size / parts + 1, (part + 1) * size / parts));
  };
  const auto [top, bottom] = bounds(row, grid.rows, image.height);
  const auto [left, right] = bounds(column, grid.columns, image.width);
  std::int64_t sums[3] = {};
  for (std::int64_t y = top; y < bottom; ++y) {
    for (std::int64_t x = left; x < right; ++x) {
      for (std::int64_t c = 0; c < 3; ++c)
        sums[c] += image.rgb[static_cast<std::size_t>(3 * (y * image.width + x) + c)];
    }
  }
  const std::int64_t count = (bottom - top) * (right - left);
  return {static_cast<std::uint8_t>(sums[0] / count), static_cast<std::uint8_t>(sums[1] / count),
          static_cast<std::uint8_t>(sums[2] / count)};
}

double density(double share) {
  constexpr double kDensest = 0.85;
  return kDensest * std::sqrt(std::min(1.0, std::abs(share)));
}

Rgb covered(Rgb color, double share, Palette palette) {
  const double cover = density(share);
  const Rgb weight = shade(share, palette);
  const auto level = [cover](std::uint8_t of_image, std::uint8_t of_weight) {
    const double pale = of_image + kPale * (255 - of_image);
    return static_cast<std::uint8_t>(std::lround(pale + cover * (of_weight - pale)));
  };
  return {level(color.r, weight.r), level(color.g, weight.g), level(color.b, weight.b)};
}

Rgb lit(Rgb color, double share) {
  constexpr double kDimmest = 0.12;
  const double light = kDimmest + (1 - kDimmest) * std::sqrt(std::clamp(share, 0.0, 1.0));
  const auto level = [light](std::uint8_t value) {
    return static_cast<std::uint8_t>(std::lround(value * light));
  };
  return {level(color.r), level(color.g), level(color.b)};
}

std::string hex(Rgb color) { return fmt::format("#{:02x}{:02x}{:02x}", color.r, color.g, color.b); }

}  // namespace heed::plot
