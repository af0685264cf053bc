#include "tensor/quantized_matrix.h"

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

}  // namespace heed
