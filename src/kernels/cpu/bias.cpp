// Adding a bias to rows, and its gradient.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bias.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/simd-inl.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void add_bias(T* y, const T* bias, int64_t rows, int64_t n) {
  parallel_for(rows, row_grain(n), [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      T* row = y + r * n;
      map_range<T>(
          0, n, row, [](auto v, auto b) HWY_ATTR { return hn::Add(v, b); }, static_cast<const T*>(row), bias);
    }
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(add_bias);

template <class T>
void add_bias(T* y, const T* bias, std::int64_t rows, std::int64_t n) {
  HEED_DISPATCH(add_bias, T)(y, bias, rows, n);
}
template <class T>
void bias_gradient(const T* dy, T* db, std::int64_t rows, std::int64_t n) {
  sum(dy, db, 1, rows, n);
}
template void add_bias(float*, const float*, std::int64_t, std::int64_t);
template void add_bias(double*, const double*, std::int64_t, std::int64_t);
template void bias_gradient(const float*, float*, std::int64_t, std::int64_t);
template void bias_gradient(const double*, double*, std::int64_t, std::int64_t);

}  // namespace heed::kernels
#endif
