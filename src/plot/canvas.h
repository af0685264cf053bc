// What a figure of attention, or a table, is drawn on: SVG (svg_canvas.h), PDF (pdf_canvas.h) or pixels
// (pixel_canvas.h). Lengths are in units, which are pixels unless the canvas is scaled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/plot/picture.h"
#include "heed/text/unicode.h"
#include "plot/color.h"

namespace heed::plot {

struct Section;

enum class Anchor : std::uint8_t { start, middle, end };
enum class Ink : std::uint8_t { dark, gray, light };

struct TextStyle {
  double size = 0;
  double character = 0;  ///< width of an average character
  Ink ink = Ink::gray;
  Anchor anchor = Anchor::start;
  bool bold = false;
};

/// A text, and where its baseline begins or, as its style says, has its middle or end.
struct PlacedText {
  double x = 0, y = 0;
  std::string text;
};

struct PlacedMap {
  const Section& section;
  const AttentionMap& map;
  double left = 0, top = 0;
  float largest = 1;  ///< of the map's measure
};

/// A bar of colors from `first` (0 or -1) to 1, between its two numbers.
struct Legend {
  double first = 0, left = 0, top = 0, width = 0;
  PlacedText low, high;
  bool over_image = false;
};

struct Box {
  double left = 0, top = 0, width = 0, height = 0;
};

/// Of a table: a color with a text over it, and a tooltip where there can be one.
struct TableCell {
  Box box;
  Rgb color;
  PlacedText text;
  std::string tooltip;
};

/// [height, width, 3]
struct Pixels {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
};

class Canvas {
 public:
  virtual ~Canvas() = default;

  /// Whether width_of() is exact. Without fonts, it is estimated from an average character.
  virtual bool measures() const { return false; }
  virtual double width_of(const std::string& text, const TextStyle& style) const {
    return style.character * display_width(text);
  }

  /// Comes first.
  virtual void open(double width, double height) = 0;
  virtual void text(const PlacedText& line, const TextStyle& style) = 0;
  /// Labels of rows, or of columns, which rise at 60 degrees.
  virtual void labels(const std::vector<PlacedText>& labels, const TextStyle& style, bool rise) = 0;
  virtual void map(const PlacedMap& placed) = 0;
  /// Pixels that fill a box, with a tooltip where there can be one.
  virtual void raster(const Pixels& pixels, const Box& box, const std::string& tooltip = "") = 0;
  /// The image that all maps share.
  virtual void image(const InputImage& image, const Box& box) = 0;
  /// Thin lines around a box, which may be as thin as a line.
  virtual void outline(const Box& box, Rgb color) = 0;
  virtual void cell(const TableCell& cell, const TextStyle& style) = 0;
  /// Pixels of a unit that are worth drawing.
  virtual double resolution() const = 0;
  virtual Palette palette() const = 0;
  virtual void legend(const Legend& legend, const TextStyle& style) = 0;
};

inline constexpr double kLegendBarHeight = 11;

/// Between cells that are large enough.
inline double gap_of(double cell) { return cell >= 8 ? 1 : 0; }

}  // namespace heed::plot
