// Views and rearrangements, for any dtype, all with gradients. Views share memory with their input. All throw
// Error for axes, sizes or ranges that do not match.
#pragma once

#include <vector>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// The same elements in row-major order under another shape; one size may be -1 and is inferred. Returns a
/// view where strides can express the result, else a copy.
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
/// Concatenates tensors of one dtype along an existing axis.
Tensor concat(const std::vector<Tensor>& parts, int axis);
/// Joins tensors of one shape along a new axis.
Tensor stack(const std::vector<Tensor>& parts, int axis);
/// The entries `indices` (i64, rank 1) of an axis, in the order given; gradients of repeated entries are
/// summed. Throws Error for an index outside the axis.
Tensor gather(const Tensor& x, int axis, const Tensor& indices);

}  // namespace heed
