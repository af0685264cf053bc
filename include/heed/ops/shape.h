// Views and rearrangements. Views share memory with their input; all pass the gradient, and work on any
// dtype.
#pragma once

#include <vector>

#include "heed/tensor.h"

namespace heed {

/// The same elements in row-major order under another shape; one size may be -1 and is worked out. Copies
/// only when the input is not contiguous in a way that a view cannot express.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Swaps two axes (view).
Tensor transpose(const Tensor& x, int a, int b);
/// Axis i of the result is axis axes[i] of x (view).
Tensor permute(const Tensor& x, const std::vector<int>& axes);
/// Adds an axis of size 1 before `axis` (view); axis == rank appends.
Tensor unsqueeze(const Tensor& x, int axis);
/// Repeats axes of size 1 to the sizes of `shape` (view).
Tensor broadcast_to(const Tensor& x, const Shape& shape);
/// Elements [begin, end) of an axis (view).
Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end);
/// Puts tensors of one dtype one after another along an axis.
Tensor concat(const std::vector<Tensor>& parts, int axis);
/// Puts tensors of one shape side by side along a new axis.
Tensor stack(const std::vector<Tensor>& parts, int axis);
/// The entries `indices` (i64, one axis) of an axis, in their order; the gradient adds up where one is
/// repeated. Throws Error for an index outside the axis.
Tensor gather(const Tensor& x, int axis, const Tensor& indices);

}  // namespace heed
