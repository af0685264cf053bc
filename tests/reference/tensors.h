// What tests of models share: the tensors of a file, and how far two of them are apart.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "heed/io/safetensors.h"
#include "heed/models/model.h"

namespace heed {

inline TensorMap read_tensors(const std::filesystem::path& file) {
  const SafetensorsFile tensors = SafetensorsFile::open(file);
  TensorMap map;
  for (const TensorInfo& info : tensors.tensors()) map[info.name] = tensors.get(info.name);
  return map;
}

/// Largest difference over the largest expected value.
inline double relative_error(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.shape(), expected.shape());
  const auto a = actual.detach().to(DType::f64).to_vector<double>(),
             b = expected.detach().to(DType::f64).to_vector<double>();
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
    if (!std::isfinite(a[i])) return INFINITY;
  }
  return largest > 0 ? difference / largest : difference;
}

}  // namespace heed
