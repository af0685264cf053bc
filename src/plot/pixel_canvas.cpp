// Draws rectangles of pixels, and text over them.
#include "plot/pixel_canvas.h"

#include <algorithm>
#include <cmath>

#include "plot/panels.h"

namespace heed::plot {
namespace {

constexpr Rgb kFrame{0xc4, 0xc4, 0xc4}, kNoNumber{0xcc, 0xcc, 0xcc};

std::uint8_t ink_level(Ink ink) { return ink == Ink::dark ? 0x22 : 0x55; }

}  // namespace

std::int64_t PixelCanvas::pixels(double units) const { return std::lround(units * scale_); }

double PixelCanvas::width_of(const std::string& text, const TextStyle& style) const {
  return style.size * fonts_.width_of(text, style.bold);
}

void PixelCanvas::open(double width, double height) {
  width_ = pixels(width);
  height_ = pixels(height);
  rgb_.assign(static_cast<std::size_t>(3 * width_ * height_), 0xff);
}

void PixelCanvas::fill(const Box& box, Rgb colour) {
  for (std::int64_t y = std::max<std::int64_t>(0, box.top); y < std::min(height_, box.top + box.height);
       ++y) {
    for (std::int64_t x = std::max<std::int64_t>(0, box.left); x < std::min(width_, box.left + box.width);
         ++x) {
      std::uint8_t* pixel = &rgb_[static_cast<std::size_t>(3 * (y * width_ + x))];
      pixel[0] = colour.r;
      pixel[1] = colour.g;
      pixel[2] = colour.b;
    }
  }
}

/// A line around the box, `distance` away from it.
void PixelCanvas::frame(const Box& box, std::int64_t distance) {
  const std::int64_t line = std::max<std::int64_t>(1, static_cast<std::int64_t>(scale_)),
                     away = distance + line;
  const std::int64_t left = box.left - away, top = box.top - away;
  const std::int64_t width = box.width + 2 * away, height = box.height + 2 * away;
  fill({left, top, width, line}, kFrame);
  fill({left, top + height - line, width, line}, kFrame);
  fill({left, top, line, height}, kFrame);
  fill({left + width - line, top, line, height}, kFrame);
}

void PixelCanvas::draw(const Label& label, const TextStyle& style, bool rise) {
  FontLine line{label.x * scale_, label.y * scale_, style.size * scale_, style.bold, rise};
  if (style.anchor != Anchor::start)
    line.x -= scale_ * width_of(label.text, style) * (style.anchor == Anchor::middle ? 0.5 : 1);
  if (!rise) line.y = std::round(line.y);
  const int ink = ink_level(style.ink);
  fonts_.draw(label.text, line, [&](std::int64_t x, std::int64_t y, std::uint8_t coverage) {
    if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
    std::uint8_t* pixel = &rgb_[static_cast<std::size_t>(3 * (y * width_ + x))];
    for (int c = 0; c < 3; ++c)
      pixel[c] = static_cast<std::uint8_t>((pixel[c] * (255 - coverage) + ink * coverage + 127) / 255);
  });
}

void PixelCanvas::text(const Label& line, const TextStyle& style) { draw(line, style, false); }

void PixelCanvas::labels(const std::vector<Label>& labels, const TextStyle& style, bool rise) {
  for (const Label& label : labels) draw(label, style, rise);
}

void PixelCanvas::map(const PlacedMap& placed) {
  const AttentionMap& map = placed.map;
  const std::int64_t cell = pixels(placed.section.cell);
  const auto gap = static_cast<std::int64_t>(gap_of(placed.section.cell) * std::floor(scale_));
  const std::int64_t left = pixels(placed.left), top = pixels(placed.top), size = cell - gap;
  for (std::int64_t query = 0; query < map.queries; ++query) {
    for (std::int64_t key = 0; key < map.keys; ++key) {
      const float weight = map.weights[static_cast<std::size_t>(query * map.keys + key)];
      fill({left + key * cell, top + query * cell, size, size},
           std::isfinite(weight) ? shades_(weight / placed.largest) : kNoNumber);
    }
  }
  frame({left, top, map.keys * cell - gap, map.queries * cell - gap}, 1);
}

void PixelCanvas::legend(const Legend& legend, const TextStyle& style) {
  const Box bar{pixels(legend.left), pixels(legend.top), pixels(legend.width), pixels(kLegendBarHeight)};
  for (std::int64_t x = 0; x < bar.width; ++x) {
    const double at = static_cast<double>(x) / static_cast<double>(bar.width - 1);
    fill({bar.left + x, bar.top, 1, bar.height},
         shades_(static_cast<float>(legend.first + (1 - legend.first) * at)));
  }
  frame(bar, 0);
  text(legend.low, style);
  text(legend.high, style);
}

}  // namespace heed::plot
