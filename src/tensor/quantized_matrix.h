// A matrix of weights that a file holds in a few bits, and the tensor that stands for it: its numbers are
// made when they are asked for, while products and lookups read a packed form of the bits themselves
// (heed/nn/weight.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "heed/tensor.h"
#include "kernels/blocks.h"

namespace heed {

/// Threads: several may use one at once.
class QuantizedMatrix {
 public:
  virtual ~QuantizedMatrix() = default;
  virtual std::int64_t rows() const = 0;
  virtual std::int64_t columns() const = 0;
  /// Of the codes and their scales.
  virtual std::int64_t bytes() const = 0;
  /// Whether the tensor is [columns, rows].
  virtual bool is_transposed() const { return false; }
  /// Whether the codes are integers or name integers, so that products may be of integers.
  virtual bool has_integers() const { return true; }
  /// The packed form, from which release_pages() has nothing to fear.
  virtual std::shared_ptr<const kernels::PackedMatrix> pack() const = 0;
  /// Which column of the matrix column l of the packed form is; empty: l.
  virtual std::vector<std::int32_t> column_order() const { return {}; }
  /// y [rows, columns] = the numbers.
  virtual void dequantize(float* y) const = 0;
  /// Gives back the pages of the file, until they are read again.
  virtual void release_pages() const {}
};

/// The numbers of a matrix, an f32 tensor of `shape`: that of the matrix, or one of as many numbers in the
/// same order. They are computed whenever they are needed, until somebody asks for their address.
Tensor tensor_of(std::shared_ptr<const QuantizedMatrix> matrix, const Shape& shape);

/// The matrix of a tensor from tensor_of(); null for any other tensor, and once its address was asked for.
std::shared_ptr<const QuantizedMatrix> quantized_of(const Tensor& tensor);

}  // namespace heed
