// Blocks of numbers for the page.
#include "inspect/number_packs.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "heed/error.h"

namespace heed::inspect {
namespace {

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int status =
      compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), 6);
  if (status != Z_OK) throw Error("attention picture: numbers cannot be compressed (out of memory)");
  out.resize(size);
  return out;
}

}  // namespace

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    for (std::size_t j = 0; j < 4; ++j) out += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

PackedNumbers pack_numbers(std::span<const float> numbers, int bits) {
  PackedNumbers packed;
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    packed.largest = std::max(packed.largest, std::abs(number));
    packed.has_signs = packed.has_signs || number < 0;
  }
  const double levels = (1 << bits) - 1, zero = packed.has_signs ? (levels - 1) / 2 : 0;
  const double factor =
      packed.largest > 0 ? (packed.has_signs ? zero : levels) / static_cast<double>(packed.largest) : 0;
  std::string codes(numbers.size() * (bits > 8 ? 2 : 1), '\0');
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double number = std::isfinite(numbers[i]) ? static_cast<double>(numbers[i]) : 0;
    const auto code = static_cast<unsigned>(std::lround(number * factor + zero));
    codes[i] = static_cast<char>(bits > 8 ? code >> 8 : code);
    if (bits > 8) codes[numbers.size() + i] = static_cast<char>(code & 0xFF);
  }
  packed.text = base64(deflated(codes));
  return packed;
}

}  // namespace heed::inspect
