// Blocks of numbers for the page.
#include "plot/number_packs.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "heed/error.h"

namespace heed::plot {
std::string deflated_base64(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int status =
      compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), 6);
  if (status != Z_OK) throw Error("page: the data cannot be compressed (out of memory)");
  out.resize(size);
  return base64(out);
}

NumberRange range_of(std::span<const float> numbers) {
  NumberRange range;
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    range.largest = std::max(range.largest, std::abs(number));
    range.has_signs = range.has_signs || number < 0;
  }
  return range;
}

std::string pack_numbers(std::span<const float> numbers, int bits) {
  const NumberRange range = range_of(numbers);
  const double levels = (1 << bits) - 1, zero = range.has_signs ? (levels - 1) / 2 : 0;
  const double factor =
      range.largest > 0 ? (range.has_signs ? zero : levels) / static_cast<double>(range.largest) : 0;
  const std::size_t bytes = (static_cast<std::size_t>(bits) + 7) / 8;
  std::string codes(numbers.size() * bytes, '\0');
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double number = std::isfinite(numbers[i]) ? static_cast<double>(numbers[i]) : 0;
    const auto code = static_cast<unsigned>(std::lround(number * factor + zero));
    for (std::size_t byte = 0; byte < bytes; ++byte)
      codes[byte * numbers.size() + i] = static_cast<char>(code >> 8 * (bytes - 1 - byte) & 0xFF);
  }
  return deflated_base64(codes);
}

}  // namespace heed::plot
