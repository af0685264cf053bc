// The color scale of weights, also over an image. Lightness decreases evenly with the weight, so that equal
// steps look equal, also in print and to color-blind readers. In figures an image is pale, and the color of a
// weight lies over it, the denser the larger the weight; in the terminal, whose ground is dark, the image is
// lit by the weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/plot/picture.h"

namespace heed::plot {

struct Rgb {
  std::uint8_t r = 0, g = 0, b = 0;
  bool operator==(const Rgb&) const = default;
};

/// Maps [0, 1] to colors from nearly white over green-blue to dark violet-blue, with equal lightness steps
/// in OKLCh space (Ottosson, "A perceptual color space for image processing", 2020). Values outside are
/// clipped.
Rgb shade(double value);

/// The same for [-1, 1] in the colors of a palette: 0 is nearly white, and values below 0 have another hue.
Rgb shade(double value, Palette palette);

/// The same in a terminal: on a dark ground 0 is nearly black, and large magnitudes are bright, so that zeros
/// recede on either ground.
Rgb terminal_shade(double value, bool light_ground);

/// The same colors, fast for the many numbers of large maps: where both ends of a short range of numbers
/// have one color, so have those between.
class Shades {
 public:
  explicit Shades(Palette palette) : palette_(palette), ranges_(2 * kRanges) {}
  Rgb operator()(float value);

 private:
  static constexpr int kRanges = 1 << 14;  // of [0, 1]
  struct Range {
    bool known = false, even = false;
    Rgb color;
  };
  Palette palette_;
  std::vector<Range> ranges_;
};

/// `#rrggbb`
std::string hex(Rgb color);

/// The color of a table's cell, of all numbers with a sign: from white to blue, and to orange below 0; gray
/// for nan.
Rgb cell_color(double shade);
/// Whether dark text has more contrast than white on a color (WCAG's relative luminance).
bool takes_dark_text(Rgb color);

inline constexpr double kPale = 0.55;  // the share of white in the image of a figure

/// The mean color of a part of the image; of one of any grid over it.
Rgb mean_color(const InputImage& image, std::int64_t row, std::int64_t column);
struct ImageGrid {
  std::int64_t rows = 0, columns = 0;
};
Rgb mean_color(const InputImage& image, const ImageGrid& grid, std::int64_t row, std::int64_t column);

/// How much the color of a weight covers, for its share of the largest: small weights show as well.
double density(double share);
/// A color of the image under that of a weight.
Rgb covered(Rgb color, double share, Palette palette);
/// The same color in the light of a weight; below 0 as 0.
Rgb lit(Rgb color, double share);

}  // namespace heed::plot
