// Draws a figure as pixels. Cells are squares of whole pixels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plot/canvas.h"
#include "plot/colour.h"
#include "plot/fonts.h"

namespace heed::plot {

class PixelCanvas final : public Canvas {
 public:
  /// Throws Error if the system has no font.
  explicit PixelCanvas(Palette palette) : shades_(palette) {}

  /// Pixels of a unit; set before the canvas is opened.
  void set_scale(double scale) { scale_ = scale; }

  bool measures() const override { return true; }
  double width_of(const std::string& text, const TextStyle& style) const override;
  void open(double width, double height) override;
  void text(const Label& line, const TextStyle& style) override;
  void labels(const std::vector<Label>& labels, const TextStyle& style, bool rise) override;
  void map(const PlacedMap& placed) override;
  void legend(const Legend& legend, const TextStyle& style) override;

  std::int64_t width() const { return width_; }
  std::int64_t height() const { return height_; }
  const std::vector<std::uint8_t>& rgb() const { return rgb_; }

 private:
  struct Box {
    std::int64_t left, top, width, height;
  };
  std::int64_t pixels(double units) const;
  void fill(const Box& box, Rgb colour);
  void frame(const Box& box, std::int64_t distance);
  void draw(const Label& label, const TextStyle& style, bool rise);

  mutable Fonts fonts_;
  Shades shades_;
  double scale_ = 1;
  std::int64_t width_ = 0, height_ = 0;
  std::vector<std::uint8_t> rgb_;
};

}  // namespace heed::plot
