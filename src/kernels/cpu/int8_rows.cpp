// Rounds rows to 8 bits with a scale each, and back.
#include "kernels/copy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "heed/threads.h"

namespace heed::kernels {
namespace {

/// max |x|; NaN where there is one.
float largest_magnitude(const float* x, std::int64_t d) {
  std::uint32_t largest = 0;  // magnitudes are in the order of their bits, NaN above all
  for (std::int64_t i = 0; i < d; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu);
  return std::bit_cast<float>(largest);
}

void to_row(std::int64_t d, const float* x, std::uint8_t* row) {
  const float scale = largest_magnitude(x, d) / 127.0F;
  std::memcpy(row, &scale, sizeof(scale));
  row += kInt8RowScale;
  if (!(scale > 0) || !std::isfinite(scale)) {
    std::memset(row, 0, static_cast<std::size_t>(d));
    return;
  }
  constexpr float kRound = 0x1.8p23F;  // a float this large has no fraction: adding it rounds to even
  for (std::int64_t i = 0; i < d; ++i) {
    // A subnormal scale is rounded so much that quotients may be larger.
    const float quotient = std::clamp(x[i] / scale, -127.0F, 127.0F);
    const float whole = (quotient + kRound) - kRound;
    row[i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(static_cast<std::int32_t>(whole)));
  }
}

void from_row(std::int64_t d, const std::uint8_t* row, float* x) {
  float scale;
  std::memcpy(&scale, row, sizeof(scale));
  row += kInt8RowScale;
  for (std::int64_t i = 0; i < d; ++i) x[i] = static_cast<float>(static_cast<std::int8_t>(row[i])) * scale;
}

template <class Fn>
void each_row(std::int64_t count, std::int64_t d, Fn fn) {
  constexpr std::int64_t kNumbers = 1 << 14;  // that are worth a thread
  parallel_for(count, std::max<std::int64_t>(1, kNumbers / std::max<std::int64_t>(d, 1)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) fn(i);
               });
}

}  // namespace

void to_int8_rows(std::int64_t count, std::int64_t d, const float* x, std::uint8_t* rows) {
  each_row(count, d, [&](std::int64_t i) { to_row(d, x + i * d, rows + i * (kInt8RowScale + d)); });
}

void from_int8_rows(std::int64_t count, std::int64_t d, const std::uint8_t* rows, float* x) {
  each_row(count, d, [&](std::int64_t i) { from_row(d, rows + i * (kInt8RowScale + d), x + i * d); });
}

}  // namespace heed::kernels
