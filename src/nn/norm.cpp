// Norms as linear maps of the parts of a sum.
#include "heed/nn/norm.h"

#include "heed/error.h"
#include "heed/ops/reduce.h"

namespace heed {

Tensor Norm::of_part(const Tensor& part, const Tensor& whole) const {
  if (kind == NormKind::group) throw Error("norm: expected a layer or RMS norm of a sum, got a group norm");
  const auto centered = [&](const Tensor& given) {
    const Tensor x = given.to(DType::f64);
    return kind == NormKind::layer ? x - mean(x, -1, true) : x;
  };
  const Tensor x = centered(whole);
  const Tensor inverse = rsqrt(mean(x * x, -1, true) + eps);  // of the deviation
  return centered(part) * inverse * (weight.to(DType::f64) + offset);
}

}  // namespace heed
