// Conversion between element types on contiguous arrays.
#pragma once

#include <cstdint>

#include "heed/dtype.h"

namespace heed::kernels {

/// dst[i] = src[i] as a Dst, for every pair of the eight element types. To a floating type: nearest, ties to
/// even. Floating to integer: toward zero, saturating, NaN gives 0. Integer to a narrower integer keeps the
/// low bits. To bool: whether it is not 0 (NaN is true). src and dst must not overlap.
template <class Src, class Dst>
void convert(const Src* src, Dst* dst, std::int64_t n);

/// The same with the types as values: n elements of `from` at src become n elements of `to` at dst.
void convert(DType from, const void* src, DType to, void* dst, std::int64_t n);

}  // namespace heed::kernels
