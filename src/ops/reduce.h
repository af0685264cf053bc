// Reductions for modules inside the library, beside heed/ops/reduce.h: from the vectors of a text's tokens to
// one vector. Both have gradients.
#pragma once

#include <span>

#include "heed/tensor.h"

namespace heed {

/// (sum over t of weights[t] x[t, :]) / divisor, [D], for x f32 [T, D]; in double and in order.
Tensor weighted_mean(const Tensor& x, std::span<const double> weights, double divisor);

/// Each row of x, f32 [N, D], divided by the larger of its Euclidean norm and `least`: rows of zeros stay
/// zeros.
Tensor normalize_rows(const Tensor& x, double least);

}  // namespace heed
