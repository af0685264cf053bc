// A matrix of weights that a file holds in blocks of a few bits (core/block_type.h), and the tensor that stands
// for it: its numbers are made when they are asked for, while products and lookups read the blocks themselves
// (heed/nn/weight.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/block_type.h"
#include "heed/buffer.h"
#include "heed/tensor.h"
#include "kernels/blocks.h"

namespace heed {

/// Rows of whole blocks, one behind the other.
struct BlockMatrix {
  BlockType type = BlockType::f32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;  // a multiple of the numbers in a block
  std::byte* data = nullptr;
  std::shared_ptr<void> owner = {};        // of the data: a mapped file
  Buffer::Release release = nullptr;       // of the pages of the data, until they are read again
  std::vector<std::int32_t> order = {};    // row i lies at place order[i]; empty: at place i
  bool transposed = false;                 // the tensor is [columns, rows]

  std::int64_t row_bytes() const {
    const BlockLayout& layout = layout_of(type);
    return columns / layout.numbers * layout.bytes;
  }
  void release_pages() const {
    if (release != nullptr) release(data, static_cast<std::size_t>(rows * row_bytes()));
  }
  const std::byte* row(std::int64_t i) const {
    return data + (order.empty() ? i : order[static_cast<std::size_t>(i)]) * row_bytes();
  }
};

/// The numbers of a matrix, a tensor of `shape`: that of the matrix, or one of as many numbers in the same order;
/// of f32, or of the plain type in which they are stored. They are computed whenever they are needed, until somebody
/// asks for their address.
Tensor tensor_of_blocks(BlockMatrix matrix, const Shape& shape);

/// The blocks of a tensor from tensor_of_blocks(), other than plain types; null for any other tensor, and once its
/// address was asked for.
std::shared_ptr<const BlockMatrix> blocks_of(const Tensor& tensor);

/// The matrix as kernels take it, which must outlive what is returned.
kernels::BlockRows kernel_rows(const BlockMatrix& matrix);

}  // namespace heed
