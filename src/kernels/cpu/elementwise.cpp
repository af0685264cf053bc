// Arithmetic on two arrays, contiguous or broadcast, and on an array and a scalar. A broadcast is walked as
// rows: after merging axes that run on from one another, the innermost axis of each operand has stride 1 or 0
// in all common cases and goes by vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/simd-inl.h"
#include "kernels/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

struct Add {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct Sub {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Sub(a, b);
  }
};
struct Mul {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Mul(a, b);
  }
};
struct Div {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Div(a, b);
  }
};

/// y[0, n) of one row whose operands advance by the given strides.
template <class T, class Op>
HWY_INLINE void broadcast_row(const T* a, int64_t stride_a, const T* b, int64_t stride_b, T* y, int64_t n,
                              Op op) {
  if (stride_a == 1 && stride_b == 1) {
    map_range<T>(0, n, y, op, a, b);
  } else if (stride_a == 1 && stride_b == 0) {
    const Vec<T> s = broadcast(*b);
    map_range<T>(
        0, n, y, [op, s](auto v) HWY_ATTR { return op(v, s); }, a);
  } else if (stride_a == 0 && stride_b == 1) {
    const Vec<T> s = broadcast(*a);
    map_range<T>(
        0, n, y, [op, s](auto v) HWY_ATTR { return op(s, v); }, b);
  } else {
    T left[lanes<T>()] = {}, right[lanes<T>()] = {};
    for (int64_t i = 0; i < n; i += lanes<T>()) {
      const int64_t count = std::min(lanes<T>(), n - i);
      for (int64_t j = 0; j < count; ++j) {
        left[j] = a[(i + j) * stride_a];
        right[j] = b[(i + j) * stride_b];
      }
      store_first<T>(op(load(left), load(right)), y + i, count);
    }
  }
}

template <class T, class Op>
HWY_INLINE void binary(const T* a, const T* b, T* y, const Broadcast& shape, Op op) {
  const int inner = shape.rank - 1;
  const int64_t n = shape.sizes[inner];
  if (inner == 0) {  // one row, cut across
    const int64_t step_a = shape.strides_a[0], step_b = shape.strides_b[0];
    parallel_for(n, kElementGrain, [&](int64_t begin, int64_t end) HWY_ATTR {
      broadcast_row(a + begin * step_a, step_a, b + begin * step_b, step_b, y + begin, end - begin, op);
    });
    return;
  }
  int64_t rows = 1;
  for (int axis = 0; axis < inner; ++axis) rows *= shape.sizes[axis];
  parallel_for(rows, row_grain(n), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      int64_t offset_a = 0, offset_b = 0, rest = row;
      for (int axis = inner - 1; axis >= 0; --axis) {
        const int64_t index = rest % shape.sizes[axis];
        rest /= shape.sizes[axis];
        offset_a += index * shape.strides_a[axis];
        offset_b += index * shape.strides_b[axis];
      }
      broadcast_row(a + offset_a, shape.strides_a[inner], b + offset_b, shape.strides_b[inner], y + row * n,
                    n, op);
    }
  });
}

#define HEED_BINARY(name, Op)                                          \
  template <class T>                                                   \
  void name##_flat(const T* a, const T* b, T* y, int64_t n) {          \
    map<T>(n, y, Op(), a, b);                                          \
  }                                                                    \
  template <class T>                                                   \
  void name##_rows(const T* a, const T* b, T* y, const Broadcast& s) { \
    binary(a, b, y, s, Op());                                          \
  }
HEED_BINARY(add, Add)
HEED_BINARY(sub, Sub)
HEED_BINARY(mul, Mul)
HEED_BINARY(div, Div)
#undef HEED_BINARY

template <class T>
void scale(const T* a, T s, T* y, int64_t n) {
  const Vec<T> factor = broadcast(s);
  map<T>(
      n, y, [=](auto v) HWY_ATTR { return hn::Mul(v, factor); }, a);
}
template <class T>
void add_scalar(const T* a, T s, T* y, int64_t n) {
  const Vec<T> term = broadcast(s);
  map<T>(
      n, y, [=](auto v) HWY_ATTR { return hn::Add(v, term); }, a);
}
template <class T>
void clamp(const T* a, T low, T high, T* y, int64_t n) {
  const Vec<T> least = broadcast(low), most = broadcast(high);
  map<T>(
      n, y,
      [=](auto v) HWY_ATTR {
        return hn::IfThenElse(hn::Lt(v, least), least, hn::IfThenElse(hn::Gt(v, most), most, v));
      },
      a);
}
template <class T>
void clamp_backward(const T* a, const T* dy, T low, T high, T* dx, int64_t n) {
  const Vec<T> least = broadcast(low), most = broadcast(high);
  map<T>(
      n, dx,
      [=](auto v, auto d)
          HWY_ATTR { return hn::IfThenElseZero(hn::And(hn::Ge(v, least), hn::Le(v, most)), d); },
      a, dy);
}
template <class T>
void axpy(T alpha, const T* x, T* y, int64_t n) {
  const Vec<T> factor = broadcast(alpha);
  map<T>(
      n, y, [=](auto u, auto v) HWY_ATTR { return hn::MulAdd(u, factor, v); }, x, static_cast<const T*>(y));
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {
namespace {

/// The same walk with axes of size 1 dropped and axes merged that continue one another in both operands. At
/// least one axis remains.
Broadcast merge_axes(const Broadcast& shape) {
  Broadcast merged;
  for (int axis = 0; axis < shape.rank; ++axis) {
    const std::int64_t size = shape.sizes[axis], a = shape.strides_a[axis], b = shape.strides_b[axis];
    if (size == 1) continue;
    const int last = merged.rank - 1;
    if (last >= 0 && merged.strides_a[last] == a * size && merged.strides_b[last] == b * size) {
      merged.sizes[last] *= size;
      merged.strides_a[last] = a;
      merged.strides_b[last] = b;
    } else {
      merged.sizes[merged.rank] = size;
      merged.strides_a[merged.rank] = a;
      merged.strides_b[merged.rank++] = b;
    }
  }
  if (merged.rank == 0) {
    merged.sizes[0] = 1;
    merged.rank = 1;
  }
  return merged;
}

}  // namespace

#define HEED_BINARY(name)                                                           \
  HEED_EXPORT(name##_flat);                                                         \
  HEED_EXPORT(name##_rows);                                                         \
  template <class T>                                                                \
  void name(const T* a, const T* b, T* y, std::int64_t n) {                         \
    HEED_DISPATCH(name##_flat, T)(a, b, y, n);                                      \
  }                                                                                 \
  template <class T>                                                                \
  void name(const T* a, const T* b, T* y, const Broadcast& shape) {                 \
    const Broadcast merged = merge_axes(shape);                                     \
    if (merged.rank == 1 && merged.strides_a[0] == 1 && merged.strides_b[0] == 1) { \
      HEED_DISPATCH(name##_flat, T)(a, b, y, merged.sizes[0]);                      \
    } else {                                                                        \
      HEED_DISPATCH(name##_rows, T)(a, b, y, merged);                               \
    }                                                                               \
  }                                                                                 \
  template void name(const float*, const float*, float*, std::int64_t);             \
  template void name(const double*, const double*, double*, std::int64_t);          \
  template void name(const float*, const float*, float*, const Broadcast&);         \
  template void name(const double*, const double*, double*, const Broadcast&);
HEED_BINARY(add)
HEED_BINARY(sub)
HEED_BINARY(mul)
HEED_BINARY(div)

HEED_EXPORT(scale);
HEED_EXPORT(add_scalar);
HEED_EXPORT(clamp);
HEED_EXPORT(clamp_backward);
HEED_EXPORT(axpy);

template <class T>
void scale(const T* a, T s, T* y, std::int64_t n) {
  HEED_DISPATCH(scale, T)(a, s, y, n);
}
template <class T>
void add_scalar(const T* a, T s, T* y, std::int64_t n) {
  HEED_DISPATCH(add_scalar, T)(a, s, y, n);
}
template <class T>
void clamp(const T* x, T low, T high, T* y, std::int64_t n) {
  HEED_DISPATCH(clamp, T)(x, low, high, y, n);
}
template <class T>
void clamp_backward(const T* x, const T* dy, T low, T high, T* dx, std::int64_t n) {
  HEED_DISPATCH(clamp_backward, T)(x, dy, low, high, dx, n);
}
template <class T>
void axpy(T alpha, const T* x, T* y, std::int64_t n) {
  HEED_DISPATCH(axpy, T)(alpha, x, y, n);
}
template void scale(const float*, float, float*, std::int64_t);
template void scale(const double*, double, double*, std::int64_t);
template void add_scalar(const float*, float, float*, std::int64_t);
template void add_scalar(const double*, double, double*, std::int64_t);
template void clamp(const float*, float, float, float*, std::int64_t);
template void clamp(const double*, double, double, double*, std::int64_t);
template void clamp_backward(const float*, const float*, float, float, float*, std::int64_t);
template void clamp_backward(const double*, const double*, double, double, double*, std::int64_t);
template void axpy(float, const float*, float*, std::int64_t);
template void axpy(double, const double*, double*, std::int64_t);

}  // namespace heed::kernels
#endif
