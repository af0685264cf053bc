// Eigen's dense matrices, as analyses use them: in f64, row by row as tensors are.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)  // gcc 12 warns of its own header of AVX-512, which Eigen uses
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <eigen3/Eigen/Core>

#include "heed/tensor.h"

namespace heed::inspect {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The numbers of a tensor of two axes.
inline Matrix matrix_of(const Tensor& x) {
  const std::vector<double> numbers = x.detach().to(DType::f64).to_vector<double>();
  return Eigen::Map<const Matrix>(numbers.data(), x.size(0), x.size(1));
}

}  // namespace heed::inspect
