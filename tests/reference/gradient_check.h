// Gradients against central differences, in f64: the oracle of every operation's backward pass.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/random.h"
#include "heed/tensor.h"

namespace heed::reference {

/// Values in [low, high), f64, of a stream that depends on `seed` alone.
inline Tensor random_tensor(const Shape& shape, std::uint64_t seed, double low = -2.0, double high = 2.0) {
  Tensor t = Tensor::empty(shape, DType::f64);
  const RandomStream stream{seed, 77};
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    t.data<double>()[i] =
        low + (high - low) * static_cast<double>(stream.uniform(static_cast<std::uint64_t>(i)));
  }
  return t;
}

/// Checks d(sum of f(inputs) * fixed random weights) / d(inputs) for every element of every input.
inline void check_gradients(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                            std::vector<Tensor> inputs, double tolerance = 1e-6) {
  for (Tensor& input : inputs) input = input.clone().set_requires_grad();  // leaves of this check alone
  const Tensor y = f(inputs);
  const Tensor weights = random_tensor(y.shape(), 991);
  const auto value = [&] {
    const NoGradients guard;
    return sum(f(inputs) * weights).item();
  };
  sum(y * weights).backward();
  constexpr double kStep = 1e-5;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    ASSERT_TRUE(inputs[k].grad().defined()) << "input " << k;
    const auto gradient = inputs[k].grad().to_vector<double>();
    double* values = inputs[k].data<double>();
    for (std::int64_t i = 0; i < inputs[k].numel(); ++i) {
      const double before = values[i];
      values[i] = before + kStep;
      const double above = value();
      values[i] = before - kStep;
      const double below = value();
      values[i] = before;
      const double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradient[static_cast<std::size_t>(i)], expected, tolerance * (1.0 + std::abs(expected)))
          << "input " << k << " element " << i;
    }
  }
}

}  // namespace heed::reference
