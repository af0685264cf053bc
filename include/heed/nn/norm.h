// Normalization as a part of a block: layer norm, RMS norm or group norm. One type for all, so that a block
// can use any.
#pragma once

#include <cstdint>

#include "heed/export.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/norm.h"
#include "heed/tensor.h"

namespace HEED_API heed {

enum class NormKind { layer, rms, group };

/// Normalizes x [..., D] over its last axis; in groups, x [B, T, D] over time and a group of channels.
struct Norm {
  NormKind kind = NormKind::layer;
  Tensor weight;  // [D]
  Tensor bias;    // [D]; undefined for RMS norm
  double eps = 1e-5;
  double offset = 0.0;      ///< added to the weight, for RMS norm
  std::int64_t groups = 1;  ///< of group norm

  Tensor operator()(const Tensor& x) const {
    if (kind == NormKind::group) return group_norm(x, groups, weight, bias, eps);
    return kind == NormKind::layer ? layer_norm(x, weight, bias, eps) : rms_norm(x, weight, eps, offset);
  }
  /// The norm of x + residual.
  Tensor of_sum(const Tensor& x, const Tensor& residual) const {
    if (kind == NormKind::group) return (*this)(x + residual);
    return kind == NormKind::layer ? add_layer_norm(x, residual, weight, bias, eps)
                                   : add_rms_norm(x, residual, weight, eps, offset);
  }
  /// The contribution of `part`, one of several that add up to `whole`, to the norm of `whole`: (part -
  /// mean(part)) / deviation(whole) * weight; RMS norm subtracts no mean. The norm of the sum is the sum of
  /// these, plus the bias. `part` and `whole` [..., D] broadcast; the result is f64. Throws Error for group
  /// norm.
  Tensor of_part(const Tensor& part, const Tensor& whole) const;
};

}  // namespace heed
