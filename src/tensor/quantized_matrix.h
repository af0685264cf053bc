// A matrix of weights that a file holds in a few bits, and the tensor that stands for it: its numbers are
// made when they are asked for, while products and lookups read a packed form of the bits themselves
// (heed/nn/weight.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/block_type.h"
#include "heed/buffer.h"
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

// Matrices in blocks of ggml's types (core/block_type.h), as GGUF files hold them.

/// The dtype of single numbers; nothing for blocks.
std::optional<DType> plain_type(BlockType type);

/// Rows of whole blocks, one behind the other.
struct BlockMatrix {
  BlockType type = BlockType::f32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;  // a multiple of the numbers in a block
  std::byte* data = nullptr;
  std::shared_ptr<void> owner = {};      // of the data: a mapped file
  Buffer::Release release = nullptr;     // of the pages of the data, until they are read again
  std::vector<std::int32_t> order = {};  // row i lies at place order[i]; empty: at place i
  bool transposed = false;               // the tensor is [columns, rows]
};

/// The numbers of a matrix, as tensor_of() (tensor/quantized_matrix.h); of a plain type, as a tensor of that
/// type.
Tensor tensor_of_blocks(BlockMatrix matrix, const Shape& shape);

// A matrix of integer codes in memory, with a scale for each group of a row: what quantizing a weight makes.

class CodeMatrix final : public QuantizedMatrix {
 public:
  int bits = 4;
  std::int64_t n = 0, k = 0, group = 32;  // as those of kernels::GroupRows, whose center is 2^(bits - 1)
  DType scale_type = DType::f32;
  std::vector<std::uint8_t> codes = {};  // [n, k]
  std::vector<float> scales = {};        // [n, k / group], numbers of scale_type

  std::int64_t rows() const override { return n; }
  std::int64_t columns() const override { return k; }
  std::int64_t bytes() const override { return group_rows().bytes(); }
  std::shared_ptr<const kernels::PackedMatrix> pack() const override { return kernels::pack(group_rows()); }
  void dequantize(float* y) const override { kernels::dequantize(group_rows(), y); }

 private:
  kernels::GroupRows group_rows() const {
    return {.bits = bits,
            .n = n,
            .k = k,
            .group = group,
            .scale_type = scale_type,
            .codes = codes.data(),
            .scales = scales.data(),
            .center = static_cast<float>(1 << (bits - 1))};
  }
};

}  // namespace heed
