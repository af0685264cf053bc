// A matrix of integer codes in memory, with a scale for each group of a row: what quantizing a weight makes.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/quantized_matrix.h"

namespace heed {

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
