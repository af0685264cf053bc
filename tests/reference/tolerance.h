// How far a result may be from its double-precision oracle: one function of the element type and of the
// number of terms that were added up.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace heed::reference {

/// Relative tolerance of a T after adding `terms` rounded numbers: a few roundings, and the random walk of
/// the rest.
template <class T>
double tolerance(std::int64_t terms = 1) {
  const double roundings = 8 + 2 * std::sqrt(static_cast<double>(terms));
  return roundings * static_cast<double>(std::numeric_limits<T>::epsilon());
}

/// Expects got[i] within tolerance * max(|want[i]|, scale) of want[i]; equal infinities and NaNs match.
template <class T>
void expect_near(const std::vector<T>& got, const std::vector<double>& want, std::int64_t terms = 1,
                 double scale = 1) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double g = static_cast<double>(got[i]);
    if (std::isnan(want[i]) ? std::isnan(g) : g == want[i]) continue;
    const double limit = tolerance<T>(terms) * std::max(std::abs(want[i]), scale);
    ASSERT_LE(std::abs(g - want[i]), limit)
        << "at " << i << " of " << got.size() << ": got " << g << ", want " << want[i];
  }
}

}  // namespace heed::reference
