// Dropout.
#include "heed/ops/dropout.h"

#include "heed/autograd.h"
#include "kernels/dropout.h"

namespace heed {

Tensor dropout(const Tensor& x, double p, RandomStream stream) {
  if (!(p >= 0.0 && p < 1.0))
    throw Error("dropout: expected a probability in [0, 1), got " + std::to_string(p));
  if (p == 0.0) return x;
  const Tensor input = x.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float("dropout", x.dtype(),
                 [&]<class T>() { kernels::dropout(input.data<T>(), y.data<T>(), y.numel(), p, stream); });
  if (needs_gradient({x})) {
    record(y, "dropout", {input},
           [p, stream](const Tensor& dy) { return std::vector<Tensor>{dropout(dy, p, stream)}; });
  }
  return y;
}

}  // namespace heed
