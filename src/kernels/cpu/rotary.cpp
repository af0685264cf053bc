// Rotary positions: one token's cosines and sines serve all its heads, so threads share out tokens.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rotary.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/simd-inl.h"
#include "kernels/rotary.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE void rotate_pair(T a, T b, T c, T s, T* first, T* second) {
  *first = a * c - b * s;
  *second = b * c + a * s;
}

/// One head of one token. `sign` is -1 for the transposed rotation.
template <class T>
HWY_INLINE void rotate_halves(const T* x, const T* cos_sin, T* y, int64_t half, T sign) {
  const T *cosines = cos_sin, *sines = cos_sin + half;
  const Vec<T> direction = broadcast(sign);
  int64_t i = 0;
  for (; i + lanes<T>() <= half; i += lanes<T>()) {
    const Vec<T> a = load(x + i), b = load(x + half + i);
    const Vec<T> c = load(cosines + i), s = hn::Mul(load(sines + i), direction);
    store<T>(hn::NegMulAdd(b, s, hn::Mul(a, c)), y + i);
    store<T>(hn::MulAdd(a, s, hn::Mul(b, c)), y + half + i);
  }
  for (; i < half; ++i) rotate_pair(x[i], x[half + i], cosines[i], sign * sines[i], y + i, y + half + i);
}

template <class T>
HWY_INLINE void rotate_neighbors(const T* x, const T* cos_sin, T* y, int64_t half, T sign) {
  const T *cosines = cos_sin, *sines = cos_sin + half;
  const Tag<T> d;
  const Vec<T> direction = broadcast(sign);
  int64_t i = 0;
  for (; i + lanes<T>() <= half; i += lanes<T>()) {
    Vec<T> a, b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    const Vec<T> c = load(cosines + i), s = hn::Mul(load(sines + i), direction);
    hn::StoreInterleaved2(hn::NegMulAdd(b, s, hn::Mul(a, c)), hn::MulAdd(a, s, hn::Mul(b, c)), d, y + 2 * i);
  }
  for (; i < half; ++i) {
    rotate_pair(x[2 * i], x[2 * i + 1], cosines[i], sign * sines[i], y + 2 * i, y + 2 * i + 1);
  }
}

template <class T>
void rotary(const Rotary<T>& a) {
  const T sign = a.transposed ? T(-1) : T(1);
  const int64_t half = a.rotary_dim / 2, rest = a.head_dim - a.rotary_dim;
  parallel_for(a.batch * a.time, row_grain(a.heads * a.head_dim), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t b = r / a.time, t = r % a.time;
      const T* cos_sin = a.cos_sin + b * a.cos_sin_batch + t * a.rotary_dim;
      for (int64_t h = 0; h < a.heads; ++h) {
        const T* x = a.x + b * a.x_strides.batch + h * a.x_strides.head + t * a.x_strides.row;
        T* y = a.y + b * a.y_strides.batch + h * a.y_strides.head + t * a.y_strides.row;
        if (a.interleaved) {
          rotate_neighbors(x, cos_sin, y, half, sign);
        } else {
          rotate_halves(x, cos_sin, y, half, sign);
        }
        if (rest > 0 && x != y) {
          std::memcpy(y + 2 * half, x + 2 * half, static_cast<std::size_t>(rest) * sizeof(T));
        }
      }
    }
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(rotary);

template <class T>
void rotary(const Rotary<T>& args) {
  HEED_DISPATCH(rotary, T)(args);
}
template void rotary(const Rotary<float>&);
template void rotary(const Rotary<double>&);

}  // namespace heed::kernels
#endif
