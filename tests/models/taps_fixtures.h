// What the tests of taps share: the fixtures of all families, and values as numbers.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "heed/tensor.h"

namespace heed {

/// Folders below the fixtures with a model and its inputs.
inline std::vector<std::string> fixtures_with_inputs() {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  for (const std::string parent : {"", "decoders", "encoders", "recurrent"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(HEED_FIXTURES) / parent)) {
      const fs::path folder = entry.path();
      if (fs::exists(folder / "inputs.safetensors") && fs::exists(folder / "model.safetensors"))
        names.push_back(fs::relative(folder, HEED_FIXTURES).string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The name of a fixture as that of a test.
inline std::string as_test_name(std::string fixture) {
  for (char& c : fixture) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return fixture;
}

inline std::vector<double> doubles(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

inline double largest_difference(const Tensor& a, const Tensor& b) {
  const auto x = doubles(a), y = doubles(b);
  double largest = a.shape() == b.shape() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    largest = x[i] == y[i] ? largest : std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

}  // namespace heed
