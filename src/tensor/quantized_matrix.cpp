// Rows of codes and of ggml's blocks as numbers.
#include "tensor/quantized_matrix.h"

#include <cstring>
#include <optional>
#include <utility>

#include "heed/buffer.h"
#include "kernels/copy.h"
#include "tensor/impl.h"

namespace heed {
namespace {

struct QuantizedSource : Buffer::Source {
  std::shared_ptr<const QuantizedMatrix> matrix;

  void write(std::byte* to) const override {
    auto* numbers = reinterpret_cast<float*>(to);
    if (!matrix->is_transposed()) return matrix->dequantize(numbers);
    const std::int64_t rows = matrix->rows(), columns = matrix->columns();
    std::vector<float> dense(static_cast<std::size_t>(rows * columns));
    matrix->dequantize(dense.data());
    kernels::StridedCopy copy{.rank = 2};
    copy.sizes = {columns, rows};
    copy.src_strides = {1, columns};
    copy.dst_strides = {rows, 1};
    kernels::copy_strided(dense.data(), numbers, copy, sizeof(float));
  }
};

std::int64_t row_bytes(const BlockMatrix& m) {
  const BlockLayout& layout = layout_of(m.type);
  return m.columns / layout.numbers * layout.bytes;
}

class Blocked : public QuantizedMatrix {
 public:
  explicit Blocked(BlockMatrix matrix) : m_(std::move(matrix)) {}
  std::int64_t rows() const override { return m_.rows; }
  std::int64_t columns() const override { return m_.columns; }
  std::int64_t bytes() const override { return m_.rows * row_bytes(m_); }
  bool is_transposed() const override { return m_.transposed; }
  std::shared_ptr<const kernels::PackedMatrix> pack() const override { return kernels::pack(kernel_rows()); }
  void dequantize(float* y) const override { kernels::dequantize(kernel_rows(), y); }
  void release_pages() const override {
    if (m_.release != nullptr) m_.release(m_.data, static_cast<std::size_t>(bytes()));
  }

 private:
  kernels::BlockRows kernel_rows() const {
    return {m_.type, m_.rows, m_.columns, m_.data, m_.order.empty() ? nullptr : m_.order.data()};
  }
  BlockMatrix m_;
};

// Numbers of a plain type, put in order when they are needed.
struct PlainRows : Buffer::Source {
  BlockMatrix m;
  DType dtype = DType::f32;

  void write(std::byte* to) const override {
    const std::size_t size = size_of(dtype), bytes = static_cast<std::size_t>(row_bytes(m));
    for (std::int64_t i = 0; i < m.rows; ++i) {
      const std::int64_t place = m.order.empty() ? i : m.order[static_cast<std::size_t>(i)];
      const std::byte* row = m.data + place * row_bytes(m);
      if (!m.transposed) {
        std::memcpy(to + i * row_bytes(m), row, bytes);
        continue;
      }
      kernels::StridedCopy copy{.rank = 1};
      copy.sizes = {m.columns};
      copy.src_strides = {1};
      copy.dst_strides = {m.rows};
      kernels::copy_strided(row, to + static_cast<std::size_t>(i) * size, copy, size);
    }
  }
};

}  // namespace

Tensor tensor_of(std::shared_ptr<const QuantizedMatrix> matrix, const Shape& shape) {
  HEED_ASSERT(shape.numel() == matrix->rows() * matrix->columns(), "a shape of as many numbers");
  auto source = std::make_shared<QuantizedSource>();
  source->matrix = std::move(matrix);
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * sizeof(float);
  return Tensor::from_buffer(Buffer::lazy(bytes, std::move(source)), shape, DType::f32);
}

std::shared_ptr<const QuantizedMatrix> quantized_of(const Tensor& tensor) {
  const auto source =
      std::dynamic_pointer_cast<const QuantizedSource>(TensorImpl::of(tensor).buffer->source());
  return source != nullptr ? source->matrix : nullptr;
}

std::optional<DType> plain_type(BlockType type) {
  switch (type) {
    case BlockType::f32: return DType::f32;
    case BlockType::f16: return DType::f16;
    case BlockType::bf16: return DType::bf16;
    default: return std::nullopt;
  }
}

Tensor tensor_of_blocks(BlockMatrix matrix, const Shape& shape) {
  HEED_ASSERT(shape.numel() == matrix.rows * matrix.columns, "a shape of as many numbers");
  const std::optional<DType> plain = plain_type(matrix.type);
  if (!plain) return tensor_of(std::make_shared<const Blocked>(std::move(matrix)), shape);
  auto source = std::make_shared<PlainRows>();
  source->dtype = *plain;
  source->m = std::move(matrix);
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(*plain);
  return Tensor::from_buffer(Buffer::lazy(bytes, std::move(source)), shape, *plain);
}

}  // namespace heed
