// Normalization as a part of a block: layer norm or RMS norm. One type for both, so that a block can use
// either.
#pragma once

#include "heed/export.h"
#include "heed/ops/norm.h"
#include "heed/tensor.h"

namespace HEED_API heed {

enum class NormKind { layer, rms };

/// Normalizes x [..., D] over its last axis.
struct Norm {
  NormKind kind = NormKind::layer;
  Tensor weight;  // [D]
  Tensor bias;    // [D]; undefined for RMS norm
  double eps = 1e-5;
  double offset = 0.0;  ///< added to the weight, for RMS norm

  Tensor operator()(const Tensor& x) const {
    return kind == NormKind::layer ? layer_norm(x, weight, bias, eps) : rms_norm(x, weight, eps, offset);
  }
  /// The norm of x + residual.
  Tensor of_sum(const Tensor& x, const Tensor& residual) const {
    return kind == NormKind::layer ? add_layer_norm(x, residual, weight, bias, eps)
                                   : add_rms_norm(x, residual, weight, eps, offset);
  }
};

}  // namespace heed
