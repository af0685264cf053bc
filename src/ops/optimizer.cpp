// A step of AdamW, for f32 and f64.
#include "ops/optimizer.h"

#include "heed/error.h"

namespace heed {

void adamw_step(const Tensor& weights, const Tensor& gradient, const Tensor& m, const Tensor& v,
                const AdamWStep& settings) {
  const std::int64_t n = weights.numel();
  HEED_ASSERT(gradient.numel() == n && m.numel() == n && v.numel() == n, "operands of one size");
  dispatch_float("AdamW", weights.dtype(), [&]<class T>() {
    kernels::adamw<T>(weights.data<T>(), gradient.data<T>(), m.data<T>(), v.data<T>(), n, settings);
  });
}

}  // namespace heed
