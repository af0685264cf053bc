// Pixels of a figure: what PNG files hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plot/canvas.h"
#include "plot/color.h"
#include "plot/fonts.h"

namespace heed::plot {

inline constexpr double kMostPixels = 1e8;

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
  void text(const PlacedText& line, const TextStyle& style) override;
  void labels(const std::vector<PlacedText>& labels, const TextStyle& style, bool rise) override;
  void map(const PlacedMap& placed) override;
  void raster(const Pixels& pixels, const Box& box, const std::string& tooltip) override;
  void image(const InputImage& image, const Box& box) override {
    raster({image.width, image.height, image.rgb}, box, "");
  }
  void outline(const Box& box, Rgb color) override;
  void cell(const TableCell& cell, const TextStyle& style) override;
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
  void draw(const PlacedText& label, const TextStyle& style, bool rise);
  void map_over_image(const PlacedMap& placed);

  mutable Fonts fonts_;
  Palette palette_;
  Shades shades_;
  double scale_ = 1;
  std::int64_t width_ = 0, height_ = 0;
  std::vector<std::uint8_t> rgb_;
};

}  // namespace heed::plot
