// Gated activations: the product of one tensor with a function of another, and both gradients in one pass.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gated.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/activation-inl.h"
#include "kernels/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// `both` gives the function's value and slope at the gate.
template <class T, class Both>
HWY_INLINE void gated_backward(const GatedBackward<T>& a, Both both) {
  parallel_for(a.n, kElementGrain, [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t i = begin; i < end; i += lanes<T>()) {
      const int64_t count = std::min(lanes<T>(), end - i);
      const bool whole = count == lanes<T>();
      const Vec<T> x = whole ? load(a.x + i) : load_first(a.x + i, count);
      const Vec<T> dy = whole ? load(a.dy + i) : load_first(a.dy + i, count);
      const auto f = both(whole ? load(a.gate + i) : load_first(a.gate + i, count));
      const Vec<T> dgate = hn::Mul(hn::Mul(dy, x), f.slope), dx = hn::Mul(dy, f.value);
      if (whole) {
        store<T>(dgate, a.dgate + i);
        store<T>(dx, a.dx + i);
      } else {
        store_first<T>(dgate, a.dgate + i, count);
        store_first<T>(dx, a.dx + i, count);
      }
    }
  });
}

#define HEED_GATED(name, function)                                                             \
  template <class T>                                                                           \
  void gated_##name(const T* gate, const T* x, T* y, int64_t n) {                              \
    map<T>(                                                                                    \
        n, y, [](auto g, auto v) HWY_ATTR { return hn::Mul(function(g).value, v); }, gate, x); \
  }                                                                                            \
  template <class T>                                                                           \
  void gated_##name##_backward(const GatedBackward<T>& args) {                                 \
    gated_backward(args, [](auto g) HWY_ATTR { return function(g); });                         \
  }
HEED_GATED(relu, relu_with_slope)
HEED_GATED(gelu, gelu_with_slope)
HEED_GATED(gelu_tanh, gelu_tanh_with_slope)
HEED_GATED(silu, silu_with_slope)
HEED_GATED(sigmoid, sigmoid_with_slope)
#undef HEED_GATED

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

#define HEED_GATED(name)                                                           \
  HEED_EXPORT(gated_##name);                                                       \
  HEED_EXPORT(gated_##name##_backward);                                            \
  template <class T>                                                               \
  void gated_##name(const T* gate, const T* x, T* y, std::int64_t n) {             \
    HEED_DISPATCH(gated_##name, T)(gate, x, y, n);                                 \
  }                                                                                \
  template <class T>                                                               \
  void gated_##name##_backward(const GatedBackward<T>& args) {                     \
    HEED_DISPATCH(gated_##name##_backward, T)(args);                               \
  }                                                                                \
  template void gated_##name(const float*, const float*, float*, std::int64_t);    \
  template void gated_##name(const double*, const double*, double*, std::int64_t); \
  template void gated_##name##_backward(const GatedBackward<float>&);              \
  template void gated_##name##_backward(const GatedBackward<double>&);
HEED_GATED(relu)
HEED_GATED(gelu)
HEED_GATED(gelu_tanh)
HEED_GATED(silu)
HEED_GATED(sigmoid)

}  // namespace heed::kernels
#endif
