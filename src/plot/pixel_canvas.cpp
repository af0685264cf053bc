// Rectangles of pixels, and text over them.
#include "plot/pixel_canvas.h"

#include <algorithm>
#include <cmath>

#include "plot/figure.h"

namespace heed::plot {
namespace {

constexpr Rgb kFrame{0xc4, 0xc4, 0xc4}, kNoNumber{0xcc, 0xcc, 0xcc};

std::uint8_t ink_level(Ink ink) { return ink == Ink::dark ? 0x22 : ink == Ink::gray ? 0x55 : 0xff; }

}  // namespace

std::int64_t PixelCanvas::pixels(double units) const { return std::lround(units * scale_); }

PixelCanvas::PixelBox PixelCanvas::pixels(const Box& box) const {
  const std::int64_t left = pixels(box.left), top = pixels(box.top);
  return {left, top, pixels(box.left + box.width) - left, pixels(box.top + box.height) - top};
}

double PixelCanvas::width_of(const std::string& text, const TextStyle& style) const {
  return style.size * fonts_.width_of(text, style.bold);
}

void PixelCanvas::open(double width, double height) {
  width_ = pixels(width);
  height_ = pixels(height);
  rgb_.assign(static_cast<std::size_t>(3 * width_ * height_), 0xff);
}

void PixelCanvas::fill(const PixelBox& box, Rgb color) {
  for (std::int64_t y = std::max<std::int64_t>(0, box.top); y < std::min(height_, box.top + box.height);
       ++y) {
    for (std::int64_t x = std::max<std::int64_t>(0, box.left); x < std::min(width_, box.left + box.width);
         ++x) {
      std::uint8_t* pixel = &rgb_[static_cast<std::size_t>(3 * (y * width_ + x))];
      pixel[0] = color.r;
      pixel[1] = color.g;
      pixel[2] = color.b;
    }
  }
}

/// A line around the box, `distance` away from it.
void PixelCanvas::frame(const PixelBox& box, std::int64_t distance) {
  const std::int64_t line = std::max<std::int64_t>(1, static_cast<std::int64_t>(scale_)),
                     away = distance + line;
  const std::int64_t left = box.left - away, top = box.top - away;
  const std::int64_t width = box.width + 2 * away, height = box.height + 2 * away;
  fill({left, top, width, line}, kFrame);
  fill({left, top + height - line, width, line}, kFrame);
  fill({left, top, line, height}, kFrame);
  fill({left + width - line, top, line, height}, kFrame);
}

void PixelCanvas::draw(const PlacedText& label, const TextStyle& style, bool rise) {
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

void PixelCanvas::text(const PlacedText& line, const TextStyle& style) { draw(line, style, false); }

void PixelCanvas::labels(const std::vector<PlacedText>& labels, const TextStyle& style, bool rise) {
  for (const PlacedText& label : labels) draw(label, style, rise);
}

void PixelCanvas::map(const PlacedMap& placed) {
  const AttentionMap& map = placed.map;
  if (placed.section.image != nullptr) return map_over_image(placed);
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

void PixelCanvas::map_over_image(const PlacedMap& placed) {
  const AttentionMap& map = placed.map;
  const Section& section = placed.section;
  const InputImage& image = *section.image;
  const PixelBox to = pixels(Box{placed.left, placed.top, section.panel_width(), section.panel_height()});
  for (std::int64_t y = 0; y < to.height; ++y) {
    for (std::int64_t x = 0; x < to.width; ++x) {
      const float weight = map.weights[static_cast<std::size_t>(y * map.queries / to.height * map.keys +
                                                                x * map.keys / to.width)];
      const std::uint8_t* from = &image.rgb[static_cast<std::size_t>(
          3 * (y * image.height / to.height * image.width + x * image.width / to.width))];
      fill({to.left + x, to.top + y, 1, 1},
           std::isfinite(weight)
               ? covered({from[0], from[1], from[2]}, static_cast<double>(weight / placed.largest), palette_)
               : kNoNumber);
    }
  }
  frame(to, 1);
}

void PixelCanvas::raster(const Pixels& pixels, const Box& box, const std::string& /*tooltip*/) {
  const PixelBox to = this->pixels(box);
  for (std::int64_t y = 0; y < to.height; ++y) {
    for (std::int64_t x = 0; x < to.width; ++x) {
      const std::uint8_t* from = &pixels.rgb[static_cast<std::size_t>(
          3 * (y * pixels.height / to.height * pixels.width + x * pixels.width / to.width))];
      fill({to.left + x, to.top + y, 1, 1}, {from[0], from[1], from[2]});
    }
  }
}

void PixelCanvas::outline(const Box& box, Rgb color) {
  const PixelBox at = pixels(box);
  const std::int64_t line = std::max<std::int64_t>(1, static_cast<std::int64_t>(scale_));
  fill({at.left, at.top, std::max(line, at.width), line}, color);
  fill({at.left, at.top + at.height - line, std::max(line, at.width), line}, color);
  fill({at.left, at.top, line, at.height}, color);
  fill({at.left + at.width - line, at.top, line, at.height}, color);
}

void PixelCanvas::cell(const TableCell& cell, const TextStyle& style) {
  fill(pixels(cell.box), cell.color);
  text(cell.text, style);
}

void PixelCanvas::legend(const Legend& legend, const TextStyle& style) {
  const PixelBox bar{pixels(legend.left), pixels(legend.top), pixels(legend.width), pixels(kLegendBarHeight)};
  for (std::int64_t x = 0; x < bar.width; ++x) {
    const double at = static_cast<double>(x) / static_cast<double>(bar.width - 1);
    fill({bar.left + x, bar.top, 1, bar.height},
         legend.over_image ? covered({255, 255, 255}, legend.first + (1 - legend.first) * at, palette_)
                           : shades_(static_cast<float>(legend.first + (1 - legend.first) * at)));
  }
  frame(bar, 0);
  text(legend.low, style);
  text(legend.high, style);
}

}  // namespace heed::plot
