// Central differences in double: the oracle of every backward.
#pragma once

#include <cstddef>
#include <vector>

namespace heed::reference {

/// d/dx[i] of sum_j dy[j] * forward(x)[j], for every i; forward maps a vector of doubles to another.
template <class Forward>
std::vector<double> numeric_gradient(Forward forward, std::vector<double> x, const std::vector<double>& dy,
                                     double step = 1e-5) {
  std::vector<double> gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = x[i];
    x[i] = value + step;
    const std::vector<double> up = forward(x);
    x[i] = value - step;
    const std::vector<double> down = forward(x);
    x[i] = value;
    double slope = 0;
    for (std::size_t j = 0; j < dy.size(); ++j) slope += dy[j] * (up[j] - down[j]);
    gradient[i] = slope / (2 * step);
  }
  return gradient;
}

}  // namespace heed::reference
