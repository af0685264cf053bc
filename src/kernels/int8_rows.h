// Rows of d numbers in 8 bits (heed/ops/int8_rows.h): the scale, an f32 that need not be aligned, then d
// signed integers.
#pragma once

#include <cstdint>

namespace heed::kernels {

/// Bytes before the integers of a row.
inline constexpr std::int64_t kInt8RowScale = sizeof(float);

/// x [count, d] to rows [count, kInt8RowScale + d].
void to_int8_rows(std::int64_t count, std::int64_t d, const float* x, std::uint8_t* rows);
void from_int8_rows(std::int64_t count, std::int64_t d, const std::uint8_t* rows, float* x);

}  // namespace heed::kernels
