// The PNG figure: rectangles of pixels, and text over them.
#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/plot/picture.h"
#include "plot/canvas.h"
#include "plot/color.h"
#include "plot/figure.h"
#include "plot/fonts.h"
#include "plot/over_image.h"
#include "plot/panels.h"

namespace heed {
namespace plot {
namespace {

/// Draws a figure as pixels. Cells are squares of whole pixels.
class PixelCanvas final : public Canvas {
 public:
  /// Throws Error if the system has no font.
  explicit PixelCanvas(Palette palette) : palette_(palette), shades_(palette) {}

  /// Pixels of a unit; set before the canvas is opened.
  void set_scale(double scale) { scale_ = scale; }

  bool measures() const override { return true; }
  double width_of(const std::string& text, const TextStyle& style) const override;
  void open(double width, double height) override;
  void text(const Label& line, const TextStyle& style) override;
  void labels(const std::vector<Label>& labels, const TextStyle& style, bool rise) override;
  void map(const PlacedMap& placed) override;
  void raster(const Pixels& pixels, const Box& box, const std::string& tooltip) override;
  void image(const InputImage& image, const Box& box) override {
    raster({image.width, image.height, image.rgb}, box, "");
  }
  void outline(const Box& box, Rgb color) override;
  double resolution() const override { return scale_; }
  Palette palette() const override { return palette_; }
  void legend(const Legend& legend, const TextStyle& style) override;

  std::int64_t width() const { return width_; }
  std::int64_t height() const { return height_; }
  const std::vector<std::uint8_t>& rgb() const { return rgb_; }

 private:
  struct PixelBox {
    std::int64_t left, top, width, height;
  };
  std::int64_t pixels(double units) const;
  PixelBox pixels(const Box& box) const;
  void fill(const PixelBox& box, Rgb color);
  void frame(const PixelBox& box, std::int64_t distance);
  void draw(const Label& label, const TextStyle& style, bool rise);
  void map_over_image(const PlacedMap& placed);

  mutable Fonts fonts_;
  Palette palette_;
  Shades shades_;
  double scale_ = 1;
  std::int64_t width_ = 0, height_ = 0;
  std::vector<std::uint8_t> rgb_;
};

constexpr Rgb kFrame{0xc4, 0xc4, 0xc4}, kNoNumber{0xcc, 0xcc, 0xcc};

std::uint8_t ink_level(Ink ink) { return ink == Ink::dark ? 0x22 : 0x55; }

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

}  // namespace
}  // namespace plot

namespace {

using plot::Figure;
using plot::PixelCanvas;
using plot::Section;

constexpr double kMostPixels = 1e8;
constexpr double kManyPixels = 1e7;  // from here on, speed counts more than the size of the file

/// Makes cells smaller until the sections fit in the width.
void fit_width(std::vector<Section>& sections, double width, const PixelCanvas& canvas) {
  for (Section& section : sections) {
    while (section.can_shrink() && section.width() + 2 * plot::kFigureMargin > width) section.shrink(canvas);
  }
}

/// Makes cells smaller until the figure has no more than the most pixels.
void fit_pixels(const AttentionPicture& picture, std::vector<Section>& sections, const PixelCanvas& canvas) {
  for (bool smaller = true; smaller;) {
    const Figure figure(picture, sections, canvas);
    if (figure.width() * figure.height() <= kMostPixels) return;
    smaller = false;
    for (Section& section : sections) {
      if (!section.can_shrink()) continue;
      section.shrink(canvas);
      smaller = true;
    }
  }
}

/// Returns by how much the figure is scaled up to fill `width`, and makes scaled cells whole pixels.
double fill_width(const AttentionPicture& picture, std::vector<Section>& sections, double width,
                  const PixelCanvas& canvas) {
  const double needed = Figure(picture, sections, canvas).width();
  if (needed > width) {
    throw Error(
        fmt::format("attention picture: expected a width of at least {} pixels for its maps, labels and "
                    "legends, got {:g} (choose fewer heads, keys or measures, or a larger width)",
                    needed, width));
  }
  const double scale = width / needed;
  for (Section& section : sections) {
    if (section.sound == nullptr) section.resize(std::floor(section.cell * scale) / scale, canvas);
  }
  return scale;
}

}  // namespace

std::string encode_png(std::int64_t width, std::int64_t height, const std::vector<std::uint8_t>& rgb) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(width);
  png.height = static_cast<png_uint_32>(height);
  png.format = PNG_FORMAT_RGB;
  if (static_cast<double>(width) * static_cast<double>(height) > kManyPixels) png.flags = PNG_IMAGE_FLAG_FAST;
  char* bytes = nullptr;
  std::size_t size = 0;
  std::FILE* memory = open_memstream(&bytes, &size);
  if (memory == nullptr) throw Error("PNG: cannot be written: out of memory");
  const bool written = png_image_write_to_stdio(&png, memory, 0, rgb.data(), 0, nullptr) != 0;
  const bool closed = std::fclose(memory) == 0;
  const std::unique_ptr<char, decltype(&std::free)> owner(bytes, &std::free);
  if (!written || !closed) throw Error(std::string("PNG: cannot be written: ") + png.message);
  return std::string(bytes, size);
}

std::string attention_png(const AttentionPicture& picture, const FigureStyle& style) {
  plot::check_picture(picture);
  PixelCanvas canvas(style.palette);
  std::vector<Section> sections =
      plot::place_maps(picture, style.width > 0 ? style.width : plot::kUsualWidth, canvas);
  if (style.width > 0) fit_width(sections, style.width, canvas);
  fit_pixels(picture, sections, canvas);
  const double scale = style.width > 0 ? fill_width(picture, sections, style.width, canvas) : 1;
  const Figure figure(picture, sections, canvas);
  const double width = std::round(figure.width() * scale), height = std::round(figure.height() * scale);
  if (width * height > kMostPixels) {
    throw Error(
        fmt::format("attention picture: expected at most {:.0f} pixels, got {:.0f} x {:.0f} (choose fewer "
                    "layers, heads, queries or keys{})",
                    kMostPixels, width, height, scale > 1 ? ", or a smaller width" : ""));
  }
  canvas.set_scale(scale);
  figure.draw(canvas);
  return encode_png(canvas.width(), canvas.height(), canvas.rgb());
}

}  // namespace heed
