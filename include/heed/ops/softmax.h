// Softmax and its logarithm, f32 or f64, with gradients. The axis has no default, because softmax over the
// wrong axis is a common mistake.
#pragma once

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// exp(x - max) / sum exp(x - max) along `axis`. A slice of -inf only gives zeros, not NaN.
Tensor softmax(const Tensor& x, int axis);
/// x - max - log(sum exp(x - max)) along `axis`.
Tensor log_softmax(const Tensor& x, int axis);
/// The same with max, exp, log and sums; a slice of -inf only gives NaN.
Tensor softmax_by_formula(const Tensor& x, int axis);
Tensor log_softmax_by_formula(const Tensor& x, int axis);

}  // namespace heed
