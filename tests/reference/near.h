// Comparing tensors element by element.
#pragma once

#include <gtest/gtest.h>

#include "heed/tensor.h"

namespace heed::reference {

/// Expects the same shape, and numbers that differ by at most `tolerance`.
inline void expect_near(const Tensor& got, const Tensor& want, double tolerance) {
  ASSERT_EQ(got.shape(), want.shape());
  const auto a = got.detach().to(DType::f64).to_vector<double>();
  const auto b = want.detach().to(DType::f64).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "element " << i;
}

}  // namespace heed::reference
