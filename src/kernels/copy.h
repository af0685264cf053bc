// Numbers from one place to another: copies between strided layouts (what contiguous, permute, concat, slice
// and their gradients come down to), and conversion of element types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "heed/dtype.h"
#include "kernels/elementwise.h"

namespace heed::kernels {

/// Axes of a copy and the step of each side along them, in elements. A source stride may be 0 (repetition) or
/// negative. Distinct indices must be distinct elements of the destination.
struct StridedCopy {
  int rank = 0;
  std::array<std::int64_t, kMaxRank> sizes{};
  std::array<std::int64_t, kMaxRank> src_strides{};
  std::array<std::int64_t, kMaxRank> dst_strides{};
};

/// dst[i . dst_strides] = src[i . src_strides] for elements of 1, 2, 4 or 8 bytes. src and dst must not
/// overlap.
void copy_strided(const void* src, void* dst, const StridedCopy& shape, std::size_t element_size);

/// Row i of dst is row ids[i] of src, each of `bytes` bytes. src and dst must not overlap.
void gather_rows(const void* src, const std::int64_t* ids, std::int64_t count, std::size_t bytes, void* dst);

/// dst[i . dst_strides] += src[i . src_strides].
template <class T>
void accumulate_strided(const T* src, T* dst, const StridedCopy& shape);

/// dst[i] = src[i] as a Dst, for every pair of the eight element types. To a floating type: nearest, ties to
/// even. Floating to integer: toward zero, saturating, NaN gives 0. Integer to a narrower integer keeps the
/// low bits. To bool: whether it is not 0 (NaN is true). src and dst must not overlap.
template <class Src, class Dst>
void convert(const Src* src, Dst* dst, std::int64_t n);

/// The same with the types as values: n elements of `from` at src become n elements of `to` at dst.
void convert(DType from, const void* src, DType to, void* dst, std::int64_t n);

// Rows of d numbers in 8 bits (heed/ops/attention.h): the scale, an f32 that need not be aligned, then d
// signed integers.

/// Bytes before the integers of a row.
inline constexpr std::int64_t kInt8RowScale = sizeof(float);

/// x [count, d] to rows [count, kInt8RowScale + d].
void to_int8_rows(std::int64_t count, std::int64_t d, const float* x, std::uint8_t* rows);
void from_int8_rows(std::int64_t count, std::int64_t d, const std::uint8_t* rows, float* x);

}  // namespace heed::kernels
