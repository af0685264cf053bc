// A figure as one page of PDF, by cairo: cells are boxes, and text is text, in the system's fonts.
#pragma once

#include <map>
#include <string>

#include "plot/canvas.h"
#include "plot/color.h"
#include "plot/fonts.h"

using cairo_t = struct _cairo;
using cairo_font_face_t = struct _cairo_font_face;
using cairo_surface_t = struct _cairo_surface;

namespace heed::plot {

/// Lengths are those of FigureStyle: 96 to the inch.
class PdfCanvas final : public Canvas {
 public:
  /// Throws Error if the system has no font.
  PdfCanvas(double width, Palette palette) : width_(width), palette_(palette) {}
  ~PdfCanvas() override;
  PdfCanvas(const PdfCanvas&) = delete;
  PdfCanvas& operator=(const PdfCanvas&) = delete;

  /// The whole file. Throws Error if cairo failed.
  std::string finish();

  bool measures() const override { return true; }
  double width_of(const std::string& text, const TextStyle& style) const override {
    return style.size * fonts_.width_of(text, style.bold);
  }
  void open(double width, double height) override;
  void text(const PlacedText& line, const TextStyle& style) override { draw(line, style, false); }
  void labels(const std::vector<PlacedText>& labels, const TextStyle& style, bool rise) override;
  void map(const PlacedMap& placed) override;
  void raster(const Pixels& pixels, const Box& box, const std::string& tooltip) override;
  void image(const InputImage& image, const Box& box) override {
    raster({image.width, image.height, image.rgb}, box, "");
  }
  void outline(const Box& box, Rgb color) override;
  void cell(const TableCell& cell, const TextStyle& style) override;
  double resolution() const override { return 2; }
  Palette palette() const override { return palette_; }
  void legend(const Legend& legend, const TextStyle& style) override;

 private:
  void fill(const Box& box, Rgb color, double opacity = 1);
  void draw(const PlacedText& label, const TextStyle& style, bool rise);

  mutable Fonts fonts_;
  double width_;  // of the page; 0: as the figure needs
  Palette palette_;
  std::string bytes_;
  cairo_surface_t* surface_ = nullptr;
  cairo_t* cairo_ = nullptr;
  std::map<FontFile, cairo_font_face_t*> faces_;
};

}  // namespace heed::plot
