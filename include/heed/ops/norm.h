// Normalization over the last axis, and over groups of channels, in f32 or f64, with gradients. Throws Error
// when shapes or dtypes do not match.
#pragma once

#include <cstdint>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// (x - mean) / sqrt(variance + eps) * weight + bias over the last axis; x [..., D], weight [D], bias [D] or
/// undefined. Ba, Kiros and Hinton, "Layer normalization".
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);
/// layer_norm(x + residual), in one pass over memory (used by post-norm layers).
Tensor add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                      double eps);
/// x / sqrt(mean(x^2) + eps) * (weight + offset) over the last axis. Zhang and Sennrich, "Root mean square
/// layer normalization". Gemma has offset 1: weights near 0 keep more digits in 16 bits, and decay to 0.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, double offset = 0.0);
/// rms_norm(x + residual), in one pass over memory.
Tensor add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, double eps,
                    double offset = 0.0);
/// (x - mean) / sqrt(variance + eps) over time and the channels of each of `groups` groups, times `weight`
/// [C], plus `bias` [C]; x [B, T, C]. Wu and He 2018, "Group normalization".
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps);
/// layer_norm and rms_norm with means, products and rsqrt; a residual is added to x before.
Tensor layer_norm_by_formula(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);
Tensor rms_norm_by_formula(const Tensor& x, const Tensor& weight, double eps, double offset = 0.0);

}  // namespace heed
