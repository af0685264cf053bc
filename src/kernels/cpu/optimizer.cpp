// AdamW: one pass over parameter, gradient and moments.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/simd-inl.h"
#include "kernels/optimizer.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void adamw(T* param, const T* grad, T* m, T* v, int64_t n, const AdamW& o) {
  const double step = static_cast<double>(o.step);
  const double correction1 = 1 - std::pow(o.beta1, step);
  const double correction2 = std::sqrt(1 - std::pow(o.beta2, step));
  const auto constant = [](double value) HWY_ATTR { return broadcast(static_cast<T>(value)); };
  const Vec<T> decay = constant(1 - o.lr * o.weight_decay), g_scale = constant(o.grad_scale);
  const Vec<T> rate1 = constant(1 - o.beta1), beta2 = constant(o.beta2), rate2 = constant(1 - o.beta2);
  const Vec<T> root = constant(correction2), eps = constant(o.eps), step_size = constant(-o.lr / correction1);
  // A strip of all four arrays stays in cache over the three loops.
  constexpr int64_t kStrip = 1024;
  const auto step_strip = [=](int64_t begin, int64_t end) HWY_ATTR {
    const T *cp = param, *cm = m, *cv = v;
    map_range<T>(
        begin, end, m,
        [=](auto old, auto g) HWY_ATTR { return hn::MulAdd(hn::Sub(hn::Mul(g, g_scale), old), rate1, old); },
        cm, grad);
    map_range<T>(
        begin, end, v,
        [=](auto old, auto g) HWY_ATTR {
          const auto scaled = hn::Mul(g, g_scale);
          return hn::MulAdd(hn::Mul(scaled, scaled), rate2, hn::Mul(old, beta2));
        },
        cv, grad);
    map_range<T>(
        begin, end, param,
        [=](auto p, auto m1, auto m2) HWY_ATTR {
          const auto denominator = hn::Add(hn::Div(hn::Sqrt(m2), root), eps);
          return hn::MulAdd(step_size, hn::Div(m1, denominator), hn::Mul(p, decay));
        },
        cp, cm, cv);
  };
  parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) HWY_ATTR {
    for (; begin < end; begin += kStrip) step_strip(begin, std::min(end, begin + kStrip));
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(adamw);

template <class T>
void adamw(T* param, const T* grad, T* m, T* v, std::int64_t n, const AdamW& options) {
  HEED_DISPATCH(adamw, T)(param, grad, m, v, n, options);
}
template void adamw(float*, const float*, float*, float*, std::int64_t, const AdamW&);
template void adamw(double*, const double*, double*, double*, std::int64_t, const AdamW&);

}  // namespace heed::kernels
#endif
