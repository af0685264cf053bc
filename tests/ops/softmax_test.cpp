// Softmax: the literature's worked numbers, any axis, rows that are masked throughout, gradients.
#include "heed/ops/softmax.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/ops/shape.h"
#include "reference/gradient_check.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::random_tensor;

TEST(Softmax, WorkedExamples) {
  const auto a = softmax(Tensor::from(std::vector<float>{8, -4, 6}, {3}), 0).to_vector<float>();
  EXPECT_NEAR(a[0], .881, 5e-4);
  EXPECT_NEAR(a[1], .000, 5e-4);
  EXPECT_NEAR(a[2], .119, 5e-4);
  const auto b = softmax(Tensor::from(std::vector<float>{1, -.5f, .75f}, {3}), 0).to_vector<float>();
  EXPECT_NEAR(b[0], .500, 5e-4);
  EXPECT_NEAR(b[1], .111, 5e-4);
  EXPECT_NEAR(b[2], .389, 5e-4);
}

TEST(Softmax, SumsToOneAlongTheNamedAxisOnly) {
  const Tensor x = random_tensor({3, 4, 5}, 51);
  for (int axis = 0; axis < 3; ++axis) {
    const Tensor y = softmax(x, axis);
    for (const double total : sum(y, axis).to_vector<double>()) EXPECT_NEAR(total, 1.0, 1e-12);
    const auto logs = log_softmax(x, axis).to_vector<double>(), values = y.to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(std::exp(logs[i]), values[i], 1e-12);
  }
  bool other_axis_sums_to_one = true;
  for (const double total : sum(softmax(x, 2), 1).to_vector<double>())
    other_axis_sums_to_one &= std::abs(total - 1) < 1e-6;
  EXPECT_FALSE(other_axis_sums_to_one);
}

TEST(Softmax, LargeAndMaskedScoresGiveNoNaN) {
  const float inf = INFINITY;
  const auto y =
      softmax(Tensor::from(std::vector<float>{1e4f, -1e4f, -inf, -inf}, {2, 2}), 1).to_vector<float>();
  EXPECT_EQ(y, (std::vector<float>{1, 0, 0, 0}));
}

TEST(Softmax, Gradients) {
  const Tensor x = random_tensor({2, 3, 4}, 52);
  for (int axis = 0; axis < 3; ++axis) {
    check_gradients([&](const auto& in) { return softmax(in[0], axis); }, {x});
    check_gradients([&](const auto& in) { return log_softmax(in[0], axis); }, {x});
  }
}

}  // namespace
}  // namespace heed
