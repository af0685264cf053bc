// The colours of weights: lightness falls evenly with the weight, so that equal steps look equal, also in
// print and to colour-blind readers.
#pragma once

#include <cstdint>
#include <string>

namespace heed::inspect {

struct Rgb {
  std::uint8_t r = 0, g = 0, b = 0;
};

/// From nearly white (0) over green-blue to dark violet-blue (1), along a line of even lightness steps in the
/// OKLCh space (Ottosson, "A perceptual color space for image processing", 2020). Values outside are clipped.
Rgb shade(double value);

/// `#rrggbb`
std::string hex(Rgb colour);

}  // namespace heed::inspect
