// How attention's operands and results lie in memory.
#pragma once

#include <cstdint>

#include "heed/ops/shape.h"
#include "heed/tensor.h"
#include "kernels/attention.h"

namespace heed {

/// The kernels read any strides but want each row of numbers dense.
inline Tensor dense_rows(const Tensor& x) {
  return x.strides()[-1] == 1 || x.size(-1) <= 1 ? x : x.contiguous();
}

inline kernels::AttentionStrides strides_of(const Tensor& x) {
  return {x.strides()[0], x.strides()[1], x.strides()[2]};
}

/// [B, H, T, d] laid out in memory as [B, T, H, d], so that joining the heads afterwards costs nothing.
inline Tensor heads_inside(std::int64_t batch, std::int64_t heads, std::int64_t time, std::int64_t width,
                           DType dtype) {
  return permute(Tensor::empty({batch, time, heads, width}, dtype), {0, 2, 1, 3});
}

}  // namespace heed
