// How weights are drawn over an image. In figures the image is pale, and the color of a weight lies over it,
// the denser the larger the weight; in the terminal, whose ground is dark, the image is lit by the weights.
#pragma once

#include <cstdint>

#include "heed/plot/picture.h"
#include "plot/color.h"

namespace heed::plot {

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
