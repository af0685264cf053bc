// Tensor: a value that names a block of numbers. Copying a Tensor copies the name; the numbers, the shape and
// the gradient belong to all copies together. Views (made by the operations in heed/ops/shape.h) share the
// numbers under another shape.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heed/buffer.h"
#include "heed/dtype.h"
#include "heed/shape.h"

namespace heed {

struct TensorImpl;

class Tensor {
 public:
  /// No tensor: `defined()` is false, and nothing else may be called.
  Tensor() = default;

  /// New row-major tensors. `empty` leaves the numbers undefined.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32);
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32);
  /// Every element is `value`, converted to `dtype`.
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
  /// Copies `values` (row-major). Throws Error when their number is not the shape's.
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

  /// Address of the first element, whatever the strides.
  std::byte* raw_data() const;
  /// Address of the first element. Throws Error when the dtype is not T's or the tensor is not contiguous.
  template <class T>
  T* data() const;
  /// The elements in row-major order. Throws Error when the dtype is not T's.
  template <class T>
  std::vector<T> to_vector() const;
  /// The only element, of any dtype. Throws Error when there are more or none.
  double item() const;

  /// This tensor, or a row-major copy of it when it is not contiguous. The gradient passes through.
  Tensor contiguous() const;
  /// A row-major copy that has no gradient history.
  Tensor clone() const;
  /// The same numbers with no gradient history (shares memory).
  Tensor detach() const;
  /// The same numbers converted to `dtype`; this tensor itself when it has it already. Between floating types
  /// the gradient passes through.
  Tensor to(DType dtype) const;
  /// to() without history whose work is done when the numbers are first needed; until then the result holds
  /// this tensor, whose numbers must not change.
  Tensor to_when_needed(DType dtype) const;
  /// Overwrites the numbers with those of `source` (same shape; converted to this dtype). Keeps no history.
  void copy_from(const Tensor& source) const;
  /// The same memory under another shape, strides (in elements) and absolute offset; no gradient history.
  Tensor alias(const Shape& shape, const Shape& strides, std::int64_t offset) const;

  /// Whether a gradient flows back through this tensor (a leaf asked for it, or an operation recorded it).
  bool requires_grad() const;
  /// Marks a leaf: backward() will leave a gradient in grad(). Only floating tensors without history.
  Tensor& set_requires_grad(bool value = true);
  /// The accumulated gradient of a leaf; not defined() when there is none yet.
  Tensor grad() const;
  void set_grad(const Tensor& gradient) const;
  /// Drops the accumulated gradient.
  void zero_grad() const;
  /// Walks the recorded operations from here back to the leaves and adds to their gradients. The graph is
  /// freed while it is walked; a second walk throws Error. `gradient` defaults to 1 and is needed when this
  /// tensor has more than one element.
  void backward(const Tensor& gradient = {}) const;

  /// "f32[2, 3]"
  std::string str() const;

  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  TensorImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<TensorImpl>& shared_impl() const { return impl_; }
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<TensorImpl> impl_;
};

}  // namespace heed
