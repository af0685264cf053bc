// Blocks of numbers for the page: rounded to few bits, compressed, and in base64.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base64.h"

namespace heed::plot {

inline std::string base64(std::string_view bytes) { return encode_base64(bytes); }

/// A zlib stream of the bytes, in base64: what the page's inflated() reads.
std::string deflated_base64(std::string_view bytes);

struct NumberRange {
  float largest = 0;       ///< magnitude
  bool has_signs = false;  ///< codes count from -largest, else from 0
};
/// Of the finite numbers.
NumberRange range_of(std::span<const float> numbers);

/// Rounds each number to one of 2^bits - 1 steps of the largest magnitude (one fewer, so that 0 is exact, if
/// any is negative), and returns the deflated codes in base64. Codes of up to 8, 16 or 24 bits take one, two
/// or three bytes: all high bytes come first, then those below. What is not finite becomes 0.
std::string pack_numbers(std::span<const float> numbers, int bits);

}  // namespace heed::plot
