// One step of AdamW over a flat array of parameters, in one pass over memory.
#pragma once

#include <cstdint>

namespace heed::kernels {

/// Settings of one AdamW step (Loshchilov and Hutter 2019). `step` counts from 1.
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  double grad_scale = 1;  // g is multiplied by this first (clipping, averaging)
  std::int64_t step = 1;
};
/// g = grad_scale * grad; param *= 1 - lr * weight_decay; m += (1 - beta1) * (g - m);
/// v = beta2 * v + (1 - beta2) * g^2; param -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) +
/// eps). The order of operations is that of torch.optim.AdamW.
template <class T>
void adamw(T* param, const T* grad, T* m, T* v, std::int64_t n, const AdamW& options);

}  // namespace heed::kernels
