// Tensors of rows that are computed when they are read.
#include "ops/computed_rows.h"

#include <utility>

#include "tensor/impl.h"

namespace heed {

void ComputedRows::write(std::byte* to) const {
  constexpr std::int64_t kNumbersAtOnce = 1 << 15;  // for a thread
  auto* rows = reinterpret_cast<float*>(to);
  parallel_for(count_, 1 + kNumbersAtOnce / (width_ + 1),
               [&](std::int64_t begin, std::int64_t end) { compute(begin, end, rows + begin * width_); });
}

Tensor when_read(std::shared_ptr<const ComputedRows> rows, const Shape& shape) {
  const auto bytes = static_cast<std::size_t>(shape.numel()) * sizeof(float);
  return Tensor::from_buffer(Buffer::lazy(bytes, std::move(rows)), shape, DType::f32);
}

std::shared_ptr<const ComputedRows> unread_rows(const Tensor& x) {
  const Buffer& buffer = *TensorImpl::of(x).buffer;
  const bool whole = x.dtype() == DType::f32 && x.is_contiguous() &&
                     static_cast<std::size_t>(x.numel()) * sizeof(float) == buffer.bytes();
  return whole ? std::dynamic_pointer_cast<const ComputedRows>(buffer.source()) : nullptr;
}

}  // namespace heed
