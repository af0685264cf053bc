// Matrices as kernels take them: in memory by strides, or packed.
#pragma once

#include <cstdint>
#include <memory>

#include "heed/dtype.h"

namespace heed::kernels {

/// Element (i, l) is data[i * row + l * column]; one of the two strides is 1. f32, bf16 or f16.
struct StridedMatrix {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row = 0;
  std::int64_t column = 1;
};

/// A dense matrix [rows, columns], or one that lies transposed in memory.
inline StridedMatrix dense_matrix(const void* data, DType dtype, std::int64_t rows, std::int64_t columns,
                                  bool transposed = false) {
  return transposed ? StridedMatrix{data, dtype, 1, rows} : StridedMatrix{data, dtype, columns, 1};
}

/// A matrix rearranged for products and lookups, with memory of its own, about as much as the numbers need.
/// Only the kernels know its layout.
class PackedMatrix;
/// Packs w [n, k].
std::shared_ptr<const PackedMatrix> pack(const StridedMatrix& w, std::int64_t n, std::int64_t k);

/// A matrix in the form in which it is stored: by strides, or packed if there is such an address.
struct StoredMatrix {
  StridedMatrix strided{};
  const PackedMatrix* packed = nullptr;
};

/// y[i, :] = factor * w[ids[i], :], widened to f32; w: [n, k], y: [count, k], ids in [0, n).
void lookup_rows(const StoredMatrix& w, std::int64_t k, const std::int64_t* ids, std::int64_t count,
                 float factor, float* y);

}  // namespace heed::kernels
