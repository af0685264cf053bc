// Reductions: values by hand, gradients by central differences.
#include "heed/ops/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "ops/reduce.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/tensors.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::random_tensor;

TEST(Reduce, TopKEqualsAStableSort) {
  std::vector<float> values(3 * 100);
  std::uint32_t random = 1;
  for (float& value : values)
    value = static_cast<float>((random = random * 1664525 + 1013904223) >> 27);  // ties
  values[7] = values[230] = std::nanf("");
  for (const std::int64_t k : {1, 2, 7, 99, 100}) {
    const auto found = top_k(Tensor::from(values, {3, 100}), k).to_vector<std::int64_t>();
    for (std::size_t row = 0; row < 3; ++row) {
      const float* own = values.data() + 100 * row;
      std::vector<std::int64_t> order(100);
      for (std::size_t i = 0; i < 100; ++i) order[i] = static_cast<std::int64_t>(i);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return own[a] > own[b] || (!std::isnan(own[a]) && std::isnan(own[b]));
      });
      order.resize(static_cast<std::size_t>(k));
      const auto begin = found.begin() + static_cast<std::ptrdiff_t>(row) * k;
      EXPECT_EQ(std::vector<std::int64_t>(begin, begin + k), order) << k;
    }
  }
}

TEST(Reduce, ValuesOverEachAxis) {
  const Tensor x = Tensor::from(std::vector<float>{1, 5, 3, 4, 2, 6}, {2, 3});
  EXPECT_EQ(sum(x, 0).to_vector<float>(), (std::vector<float>{5, 7, 9}));
  EXPECT_EQ(sum(x, -1).to_vector<float>(), (std::vector<float>{9, 12}));
  EXPECT_EQ(sum(x, 1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(mean(x, 1).to_vector<float>(), (std::vector<float>{3, 4}));
  EXPECT_EQ(max(x, 1).to_vector<float>(), (std::vector<float>{5, 6}));
  EXPECT_EQ(argmax(x, 0).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0, 1}));
  EXPECT_EQ(top_k(x, 2).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 2, 0}));
  EXPECT_EQ(top_k(Tensor::zeros({1, 3}), 3).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(top_k(x, 0).shape(), (Shape{2, 0}));
  EXPECT_ERROR(top_k(x, 4), "top_k: expected at most 3 of f32[2, 3], got 4");
  EXPECT_EQ(sum(x).item(), 21);
  EXPECT_EQ(mean(x).item(), 3.5);
  EXPECT_EQ(sum_to(x, {1, 3}).to_vector<float>(), (std::vector<float>{5, 7, 9}));
  EXPECT_EQ(sum_to(x, {}).item(), 21);
  EXPECT_ERROR(sum(x, 2), "axis: expected one of the 2 axes of [2, 3], got 2");
  EXPECT_ERROR(max(Tensor::zeros({2, 0}), 1), "max: expected a non-empty axis, got f32[2, 0]");
}

TEST(Reduce, Gradients) {
  const Tensor x = random_tensor({2, 3, 4}, 11);
  for (int axis = 0; axis < 3; ++axis) {
    check_gradients([&](const auto& in) { return sum(in[0], axis); }, {x});
    check_gradients([&](const auto& in) { return mean(in[0], axis, true); }, {x});
    check_gradients([&](const auto& in) { return max(in[0], axis); }, {x});
  }
  check_gradients([](const auto& in) { return sum_to(in[0], {3, 1}); }, {x});
}

TEST(Reduce, WholeTensorsAsNumbers) {
  const Tensor x = transpose(Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}), 0, 1);
  EXPECT_EQ(sum_of_squares(x), 91.0);
  EXPECT_TRUE(all_finite(x));
  EXPECT_FALSE(all_finite(x * std::numeric_limits<double>::infinity()));
  EXPECT_EQ(sum_of_squares(Tensor::zeros({0})), 0.0);
}

// Against the same by formula, in f64, whose gradients are those of central differences.
TEST(Reduce, PoolingHasTheGradientsOfItsFormulas) {
  const auto compare = [](const Tensor& x, const auto& fused, const auto& formula) {
    Tensor narrow = x.to(DType::f32).clone().set_requires_grad(),
           wide = narrow.detach().to(DType::f64).clone();
    wide.set_requires_grad();
    const Tensor y = fused(narrow), z = formula(wide);
    EXPECT_LE(relative_error(y, z.to(DType::f32)), 1e-6);
    const Tensor dy = random_tensor(z.shape(), 5);
    y.backward(dy.to(DType::f32));
    z.backward(dy);
    EXPECT_LE(relative_error(narrow.grad(), wide.grad().to(DType::f32)), 1e-6);
  };
  const std::vector<double> weights{1, 2, 3, 4};
  compare(
      random_tensor({4, 7}, 1), [&](const Tensor& x) { return weighted_mean(x, weights, 10); },
      [&](const Tensor& x) {
        return sum(x * Tensor::from(weights, {4, 1}), 0) * 0.1;
      });
  const auto unit = [](const Tensor& x) { return x / sqrt(sum(x * x, 1, true)); };
  check_gradients([&](const std::vector<Tensor>& in) { return unit(in[0]); }, {random_tensor({3, 7}, 2)});
  compare(
      random_tensor({3, 7}, 2), [](const Tensor& x) { return normalize_rows(x, 1e-12); }, unit);
  compare(
      random_tensor({3, 7}, 3), [](const Tensor& x) { return normalize_rows(x, 50); },
      [](const Tensor& x) { return x * 0.02; });
}

}  // namespace
}  // namespace heed
