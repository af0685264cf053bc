// Matrices in blocks of ggml's types (core/block_type.h), as GGUF files hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/block_type.h"
#include "heed/buffer.h"
#include "heed/tensor.h"

namespace heed {

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

}  // namespace heed
