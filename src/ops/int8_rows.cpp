#include "heed/ops/int8_rows.h"

#include "heed/autograd.h"
#include "heed/error.h"
#include "kernels/int8_rows.h"

namespace heed {
namespace {

// x's shape with `width` instead of the last axis.
Shape with_width(const Tensor& x, std::int64_t width) {
  Shape shape = x.shape();
  shape[x.rank() - 1] = width;
  return shape;
}

}  // namespace

Tensor int8_rows(const Tensor& x) {
  if (x.rank() < 1 || x.dtype() != DType::f32)
    throw Error("int8 rows: expected numbers f32 [..., d], got " + x.str());
  refuse_gradient("int8 rows", {x});
  const std::int64_t d = x.size(x.rank() - 1);
  const Tensor dense = x.contiguous(),
               rows = Tensor::empty(with_width(x, kernels::kInt8RowScale + d), DType::u8);
  if (x.numel() > 0) kernels::to_int8_rows(x.numel() / d, d, dense.data<float>(), rows.data<std::uint8_t>());
  return rows;
}

Tensor from_int8_rows(const Tensor& rows) {
  if (rows.rank() < 1 || rows.dtype() != DType::u8 || rows.size(rows.rank() - 1) < kernels::kInt8RowScale)
    throw Error("int8 rows: expected rows u8 [..., 4 + d], got " + rows.str());
  const std::int64_t d = rows.size(rows.rank() - 1) - kernels::kInt8RowScale;
  const Tensor dense = rows.contiguous(), x = Tensor::empty(with_width(rows, d));
  if (x.numel() > 0) kernels::from_int8_rows(x.numel() / d, d, dense.data<std::uint8_t>(), x.data<float>());
  return x;
}

}  // namespace heed
