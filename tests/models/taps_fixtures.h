// What the tests of taps share: the fixtures of all families, and values as numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "heed/tensor.h"
#include "models/family_fixtures.h"

namespace heed {

/// Folders below the fixtures with a model of the usual settings.
inline std::vector<std::string> fixtures_with_inputs() {
  std::vector<std::string> names;
  for (const FamilyFixture& f : kFamilyFixtures)
    if (!f.is_in("variants")) names.push_back(f.folder);
  return names;
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
