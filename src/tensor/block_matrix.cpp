#include "tensor/block_matrix.h"

#include <cstring>
#include <utility>

#include "kernels/copy.h"
#include "tensor/impl.h"

namespace heed {
namespace {

std::optional<DType> plain_type(BlockType type) {
  switch (type) {
    case BlockType::f32: return DType::f32;
    case BlockType::f16: return DType::f16;
    case BlockType::bf16: return DType::bf16;
    default: return std::nullopt;
  }
}

struct BlockSource : Buffer::Source {
  std::shared_ptr<const BlockMatrix> matrix;
  DType dtype = DType::f32;

  void write(std::byte* to) const override {
    if (!matrix->transposed) return write_rows(to);
    const std::int64_t rows = matrix->rows, columns = matrix->columns;
    const auto dense = Buffer::allocate(static_cast<std::size_t>(rows * columns) * size_of(dtype));
    write_rows(dense->data());
    kernels::StridedCopy copy{.rank = 2};
    copy.sizes = {columns, rows};
    copy.src_strides = {1, columns};
    copy.dst_strides = {rows, 1};
    kernels::copy_strided(dense->data(), to, copy, size_of(dtype));
  }

 private:
  void write_rows(std::byte* to) const {
    const BlockMatrix& m = *matrix;
    if (!plain_type(m.type))
      return kernels::dequantize(kernel_rows(m), reinterpret_cast<float*>(to));
    const auto bytes = static_cast<std::size_t>(m.row_bytes());
    for (std::int64_t i = 0; i < m.rows; ++i, to += bytes) std::memcpy(to, m.row(i), bytes);
  }
};

}  // namespace

kernels::BlockRows kernel_rows(const BlockMatrix& m) {
  return {m.type, m.rows, m.columns, m.data, m.order.empty() ? nullptr : m.order.data()};
}

Tensor tensor_of_blocks(BlockMatrix matrix, const Shape& shape) {
  HEED_ASSERT(shape.numel() == matrix.rows * matrix.columns, "a shape of as many numbers");
  auto source = std::make_shared<BlockSource>();
  source->dtype = plain_type(matrix.type).value_or(DType::f32);
  source->matrix = std::make_shared<const BlockMatrix>(std::move(matrix));
  const DType dtype = source->dtype;
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  return Tensor::from_buffer(Buffer::lazy(bytes, std::move(source)), shape, dtype);
}

std::shared_ptr<const BlockMatrix> blocks_of(const Tensor& tensor) {
  const auto source = std::dynamic_pointer_cast<const BlockSource>(TensorImpl::of(tensor).buffer->source());
  return source != nullptr && !plain_type(source->matrix->type) ? source->matrix : nullptr;
}

}  // namespace heed
