// Normalization over the last axis, in f32 or f64, with gradients. Throws Error when shapes or dtypes do not
// match.
#pragma once

#include "heed/tensor.h"

namespace heed {

/// (x - mean) / sqrt(variance + eps) * weight + bias over the last axis; x [..., D], weight [D], bias [D] or
/// undefined. Ba, Kiros and Hinton, "Layer normalization".
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);
/// layer_norm(x + residual), in one pass over memory (used by post-norm layers).
Tensor add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                      double eps);
/// x / sqrt(mean(x^2) + eps) * weight over the last axis. Zhang and Sennrich, "Root mean square layer
/// normalization".
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);
/// rms_norm(x + residual), in one pass over memory.
Tensor add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, double eps);

}  // namespace heed
