// Tensor: a handle to an n-dimensional array. Copying a Tensor copies the handle; the copies share data,
// shape and gradient. Views (made by the operations in heed/ops/shape.h) share the data with another shape or
// strides.
#pragma once

#include <iosfwd>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heed/buffer.h"
#include "heed/dtype.h"
#include "heed/export.h"
#include "heed/shape.h"

namespace HEED_API heed {

struct TensorImpl;

/// Threads: several may read one tensor, or copies and views of it, at once. Writing to its elements,
/// requiring a gradient and backward() are for one thread while no other uses the storage.
class Tensor {
 public:
  /// An undefined tensor: `defined()` is false, and no other member may be called.
  Tensor() = default;

  /// New row-major tensors. The elements of `empty` are uninitialized.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32);
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32);
  /// Every element is `value`, converted to `dtype`.
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
  /// Copies `values` (row-major). Throws Error when their number does not match the shape.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape);
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }
  /// A scalar, shape [].
  static Tensor scalar(double value, DType dtype = DType::f32) { return full({}, value, dtype); }
  /// Row-major tensor over existing memory; `offset` is in elements. Throws Error when the buffer is too
  /// small.
  static Tensor from_buffer(std::shared_ptr<Buffer> buffer, const Shape& shape, DType dtype,
                            std::int64_t offset = 0);

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const;
  const Shape& strides() const;
  std::int64_t offset() const;
  int rank() const { return shape().rank(); }
  std::int64_t size(int axis) const { return shape()[axis]; }
  std::int64_t numel() const;
  DType dtype() const;
  bool is_contiguous() const;

  /// Address of the first element, for any strides.
  std::byte* raw_data() const;
  /// Address of the first element; it stays valid as long as the data. Throws Error when the dtype is not T's
  /// or the tensor is not contiguous.
  template <class T>
  T* data() const;
  /// The elements in row-major order. Throws Error when the dtype is not T's.
  template <class T>
  std::vector<T> to_vector() const;
  /// The only element, of any dtype. Throws Error unless there is exactly one.
  double item() const;

  /// This tensor, or a row-major copy if it is not contiguous. Differentiable.
  Tensor contiguous() const;
  /// A row-major copy without gradient history.
  Tensor clone() const;
  /// The same data without gradient history (shares memory).
  Tensor detach() const;
  /// The data converted to `dtype`; this tensor itself if it has that dtype. Differentiable between floating
  /// types.
  Tensor to(DType dtype) const;
  /// A lazy to() without gradient history: the conversion runs when the data are first needed. Until then the
  /// result keeps this tensor alive, and its data must not change.
  Tensor to_lazy(DType dtype) const;
  /// Overwrites the data with those of `source` (same shape; converted to this dtype), without gradient
  /// history.
  void copy_from(const Tensor& source) const;
  /// A view of the same memory with another shape, strides (in elements) and absolute offset; no gradient
  /// history.
  Tensor as_strided(const Shape& shape, const Shape& strides, std::int64_t offset) const;

  /// Whether this tensor needs a gradient: a leaf marked by set_requires_grad, or the recorded result of an
  /// operation.
  bool requires_grad() const;
  /// Marks a leaf: backward() accumulates its gradient in grad(). Only for floating tensors without history.
  Tensor& set_requires_grad(bool value = true);
  /// The accumulated gradient of a leaf; undefined if there is none yet.
  Tensor grad() const;
  void set_grad(const Tensor& gradient) const;
  /// Removes the accumulated gradient.
  void zero_grad() const;
  /// Back-propagates from this tensor to the leaves and adds to their gradients. The graph is freed on the
  /// way; a second call throws Error. `gradient` is dL/d(this): default 1, required if this tensor has more
  /// than one element.
  void backward(const Tensor& gradient = {}) const;

  /// Dtype and shape, "f32[2, 3]", as error messages name a tensor; operator<< writes the elements too.
  std::string str() const;

  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

 private:
  friend struct TensorImpl;
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<TensorImpl> impl_;
};

/// Writes dtype, shape and elements, "f32[2] [1, 0.5]", floating ones with six digits. If there are more than
/// 1000 elements, only the first and last three along each axis, with "..." between them. Lazy data stay
/// lazy.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

/// Tensors by their names.
using TensorMap = std::map<std::string, Tensor>;

}  // namespace heed
