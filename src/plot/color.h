// The color scale of weights. Lightness decreases evenly with the weight, so that equal steps look equal,
// also in print and to color-blind readers.
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

}  // namespace heed::plot
