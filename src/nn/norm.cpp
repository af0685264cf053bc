// Norms of sums.
#include "heed/nn/norm.h"

#include "heed/ops/elementwise.h"

namespace heed {

Tensor Norm::of_sum(const Tensor& x, const Tensor& residual) const {
  if (kind == NormKind::layer) return add_layer_norm(x, residual, weight, bias, eps);
  return rms_norm(x + residual, weight, eps);
}

}  // namespace heed
