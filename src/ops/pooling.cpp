#include "ops/pooling.h"

#include "heed/autograd.h"
#include "heed/error.h"
#include "kernels/reduce.h"

namespace heed {

Tensor weighted_mean(const Tensor& x, std::span<const double> weights, double divisor) {
  refuse_gradient("weighted_mean", {x});
  const std::int64_t rows = x.size(0), width = x.size(1);
  HEED_ASSERT(rows == std::ssize(weights), "one weight for each row");
  const Tensor input = x.contiguous(), y = Tensor::empty({width});
  kernels::weighted_mean(input.data<float>(), weights.data(), divisor, rows, width, y.data<float>());
  return y;
}

Tensor normalize_rows(const Tensor& x, double least) {
  refuse_gradient("normalize_rows", {x});
  const Tensor input = x.contiguous(), y = Tensor::empty(x.shape());
  kernels::normalize_rows(input.data<float>(), least, x.size(0), x.size(1), y.data<float>());
  return y;
}

}  // namespace heed
