// Element-wise operations with NumPy's broadcasting. Operands are f32 or f64, both of the same dtype; every
// function throws Error when the dtypes differ or the shapes do not broadcast. All have gradients.
#pragma once

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
/// x + value, x * value.
Tensor add(const Tensor& x, double value);
Tensor mul(const Tensor& x, double value);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, double b) { return add(a, -b); }
inline Tensor operator*(const Tensor& a, double b) { return mul(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return mul(b, a); }

Tensor neg(const Tensor& x);
/// |x|, with gradient 0 at 0.
Tensor abs(const Tensor& x);
/// min(max(x, low), high), with gradient 0 outside [low, high]. Throws Error unless low <= high.
Tensor clamp(const Tensor& x, double low, double high);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
/// 1 / sqrt(x)
Tensor rsqrt(const Tensor& x);

}  // namespace heed
