// A norm as a part of a block, computed when it is read.
#pragma once

#include <utility>

#include "heed/nn/norm.h"
#include "ops/norm.h"

namespace heed {

/// The norm of x, or of x + residual, which must not change before it is read (norm_when_read() of ops).
inline Tensor norm_when_read(const Norm& norm, Tensor x, const Tensor& residual = {}) {
  if (norm.kind == NormKind::group) return residual.defined() ? norm.of_sum(x, residual) : norm(x);
  const bool centered = norm.kind == NormKind::layer;
  return norm_when_read({.name = centered ? "layer_norm" : "rms_norm",
                         .x = std::move(x),
                         .residual = residual,
                         .weight = norm.weight,
                         .bias = centered ? norm.bias : Tensor(),
                         .eps = norm.eps,
                         .centered = centered,
                         .offset = centered ? 0.0 : norm.offset});
}

}  // namespace heed
