// Rows of numbers in 8 bits: each row has one scale, and an integer for each number.
#pragma once

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// Each row of x [..., d], f32, as u8 [..., 4 + d]: the row's scale, an f32, then d signed integers of 8
/// bits. scale = max |x| / 127, and each integer is x / scale, rounded to the nearest, ties to even. A row of
/// zeros has the scale 0; one with infinities or NaN has such a scale, and no number in place of its numbers.
/// No gradient. Throws Error for another dtype.
Tensor int8_rows(const Tensor& x);
/// The numbers of such rows, scale * integer: u8 [..., 4 + d] to f32 [..., d]. Throws Error for other
/// tensors.
Tensor from_int8_rows(const Tensor& rows);

}  // namespace heed
