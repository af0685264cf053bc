// The batch-invariant matrix product x w^T, whose every element is a sum in one fixed order:
//
//     y[i, j] = act(fma(x[i, k-1], w[j, k-1], ... fma(x[i, 0], w[j, 0], 0)) + bias[j])
//
// whatever m, the row's neighbours, the number of threads and the way the work is cut. A row of a batch has
// the bits that it would have alone. w may be stored in 16 bits; it is widened exactly.
#pragma once

#include <cstdint>

#include "heed/kernels/activation.h"
#include "kernels/matrix.h"

namespace heed::kernels {

/// What happens to a sum before it is stored.
struct Epilogue {
  const float* bias = nullptr;  // [n], or null
  Activation activation = Activation::none;
};

struct InvariantGemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  StridedMatrix x{};  // [m, k], f32
  StoredMatrix w{};   // [n, k]; by strides, it is packed on the way
  Epilogue epilogue{};
  float* y = nullptr;  // [m, n], rows ldy apart
  std::int64_t ldy = 0;
  bool accumulate = false;  // the sums begin with what y holds instead of 0
};
/// The formula above, on all threads.
void invariant_gemm(const InvariantGemm& args);

}  // namespace heed::kernels
