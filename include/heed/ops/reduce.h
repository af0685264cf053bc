// Reductions over axes. Inputs are f32 or f64. Throws Error for an axis out of range.
#pragma once

#include <vector>

#include "heed/tensor.h"

namespace heed {

/// Sum, mean and maximum over one axis (negative: counted from the end); `keep` keeps an axis of size 1.
Tensor sum(const Tensor& x, int axis, bool keep = false);
Tensor mean(const Tensor& x, int axis, bool keep = false);
/// The gradient goes to the first largest element.
Tensor max(const Tensor& x, int axis, bool keep = false);
/// Index (i64) of the first largest element. Integers have no gradient.
Tensor argmax(const Tensor& x, int axis, bool keep = false);
/// Indices (i64) [..., k] of the k largest elements of the last axis, the largest first, of equal ones the
/// first. Throws Error unless 0 <= k <= the size of the axis. Integers have no gradient.
Tensor top_k(const Tensor& x, std::int64_t k);
/// Over all elements; the result is a scalar.
Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x);
/// The sum of x[i]^2, added up in double. Not differentiable.
double sum_of_squares(const Tensor& x);
/// Whether no element is infinite or NaN.
bool all_finite(const Tensor& x);
/// The inverse of broadcasting: sums over the axes in which `shape` was broadcast to x's shape. The result
/// has `shape`.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace heed
