// Matrix products against three loops, gradients against central differences.
#include "heed/ops/matmul.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "heed/ops/loss.h"
#include "heed/ops/shape.h"
#include "reference/error.h"
#include "reference/gradient_check.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::random_tensor;

std::vector<double> by_loops(const Tensor& a, const Tensor& b) {  // two matrices
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  const auto m = static_cast<std::size_t>(a.size(0)), k = static_cast<std::size_t>(a.size(1)),
             n = static_cast<std::size_t>(b.size(1));
  std::vector<double> c(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t l = 0; l < k; ++l) c[i * n + j] += x[i * k + l] * y[l * n + j];
    }
  }
  return c;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

TEST(Matmul, EqualsThreeLoops) {
  for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{3, 4, 5}, {1, 7, 1}, {17, 33, 9}, {64, 65, 66}}) {
    const Tensor a = random_tensor({m, k}, 31), b = random_tensor({k, n}, 32);
    const auto want = by_loops(a, b);
    expect_near(matmul(a, b).to_vector<double>(), want, 1e-12 * static_cast<double>(k));
    expect_near(matmul(a.to(DType::f32), b.to(DType::f32)).to(DType::f64).to_vector<double>(), want,
                1e-5 * static_cast<double>(k));
    const Tensor stored = transpose(b, 0, 1).contiguous();
    expect_near(matmul(a, transpose(stored, 0, 1)).to_vector<double>(), want, 1e-12 * static_cast<double>(k));
  }
}

TEST(Matmul, BatchesBroadcast) {
  const Tensor a = random_tensor({2, 3, 4, 5}, 33), b = random_tensor({3, 5, 2}, 34),
               c = random_tensor({5, 6}, 35);
  const Tensor y = matmul(a, b);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 4, 2}));
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      const Tensor left = reshape(slice(slice(a, 0, i, i + 1), 1, j, j + 1), {4, 5});
      const Tensor right = reshape(slice(b, 0, j, j + 1), {5, 2});
      expect_near(reshape(slice(slice(y, 0, i, i + 1), 1, j, j + 1), {4, 2}).to_vector<double>(),
                  by_loops(left, right), 1e-12);
    }
  }
  EXPECT_EQ(matmul(a, c).shape(), (Shape{2, 3, 4, 6}));
  EXPECT_EQ(matmul(Tensor::zeros({2, 0}), Tensor::zeros({0, 3})).to_vector<float>(),
            std::vector<float>(6, 0.0f));
}

TEST(Matmul, Gradients) {
  check_gradients([](const auto& in) { return matmul(in[0], in[1]); },
                  {random_tensor({3, 4}, 36), random_tensor({4, 2}, 37)});
  check_gradients([](const auto& in) { return matmul(in[0], in[1]); },
                  {random_tensor({2, 2, 3, 4}, 38), random_tensor({2, 4, 2}, 39)});
  check_gradients([](const auto& in) { return matmul(in[0], in[1]); },
                  {random_tensor({2, 3, 4}, 40), random_tensor({4, 2}, 41)});
  check_gradients([](const auto& in) { return matmul(in[0], transpose(in[1], -1, -2)); },
                  {random_tensor({2, 3, 4}, 42), random_tensor({2, 5, 4}, 43)});
}

TEST(Linear, EqualsProductPlusBiasForEveryActivation) {
  const Tensor x = random_tensor({2, 3, 4}, 44), w = random_tensor({5, 4}, 45), b = random_tensor({5}, 46);
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu,
        Activation::tanh, Activation::sigmoid, Activation::quick_gelu, Activation::gelu_10, Activation::mish,
        Activation::laplace, Activation::sqrt_softplus}) {
    SCOPED_TRACE(static_cast<int>(activation));
    const Tensor want = activate(matmul(x, transpose(w, 0, 1)) + b, activation);
    expect_near(linear(x, w, b, activation).to_vector<double>(), want.to_vector<double>(), 1e-12);
    check_gradients([&](const auto& in) { return linear(in[0], in[1], in[2], activation); }, {x, w, b});
  }
  check_gradients([](const auto& in) { return linear(in[0], in[1]); }, {x, w});
}

TEST(Linear, TakesTheTransposedWeight) {
  const Tensor x = random_tensor({2, 3, 4}, 49), w = random_tensor({4, 5}, 50), b = random_tensor({5}, 51);
  const auto in_first = [](const auto& in) {
    return linear(in[0], in[1], in[2], Activation::silu, WeightLayout::in_out);
  };
  const std::vector<Tensor> inputs = {x, w, b};
  expect_near(in_first(inputs).to_vector<double>(),
              activate(matmul(x, w) + b, Activation::silu).to_vector<double>(), 1e-12);
  check_gradients(in_first, inputs);
  EXPECT_ERROR(linear(x, transpose(w, 0, 1), {}, Activation::none, WeightLayout::in_out),
               "weight [in, out], got f64[2, 3, 4] and f64[5, 4]");
}

TEST(Linear, WidensStoredWeights) {
  const Tensor x = random_tensor({3, 4}, 47).to(DType::f32), w = random_tensor({5, 4}, 48).to(DType::bf16);
  EXPECT_EQ(linear(x, w).to_vector<float>(), linear(x, w.to(DType::f32)).to_vector<float>());
}

// While it lasts, products that record see operands rounded to bf16, forward and backward; others do not.
TEST(MixedPrecision, RoundsTheOperandsOfRecordedProducts) {
  const auto rounded = [](const Tensor& x) { return x.to(DType::bf16).to(DType::f32); };
  const auto wide = [](const Tensor& x) { return x.to(DType::f64).to_vector<double>(); };
  const Tensor x = random_tensor({6, 40}, 52).to(DType::f32), w = random_tensor({5, 40}, 53).to(DType::f32);
  const Tensor dy = random_tensor({6, 5}, 54).to(DType::f32), targets = Tensor::zeros({6}, DType::i64);
  const auto gradients = [&](bool mixed, const Tensor& left, const Tensor& right, const Tensor& top) {
    Tensor a = left.clone(), b = right.clone();
    a.set_requires_grad();
    b.set_requires_grad();
    std::optional<MixedPrecision> guard;
    if (mixed) guard.emplace();
    const Tensor y = linear(a, b);
    guard.reset();
    y.backward(top);
    return std::array{y.detach(), a.grad(), b.grad()};
  };
  const auto got = gradients(true, x, w, dy), want = gradients(false, rounded(x), rounded(w), rounded(dy));
  for (std::size_t i = 0; i < got.size(); ++i) expect_near(wide(got[i]), wide(want[i]), 1e-5);
  const std::vector<float> exact = linear(x, w).to_vector<float>();
  const MixedPrecision guard;
  EXPECT_EQ(linear(x, w).to_vector<float>(), exact);
  Tensor a = rounded(x), b = rounded(w);
  a.set_requires_grad();
  const Tensor loss = linear_cross_entropy(a, b, {}, targets);
  EXPECT_NEAR(loss.item(), linear_cross_entropy(rounded(x), b, {}, targets).item(), 1e-5);
}

// The gradient of a weight in bf16 is f32, and it has the bits that it has with the same numbers in f32.
TEST(Linear, GradientsOfAStoredWeight) {
  const Tensor x = random_tensor({6, 40}, 55).to(DType::f32), bias = random_tensor({5}, 56).to(DType::f32);
  const Tensor targets = Tensor::zeros({6}, DType::i64);
  const auto run = [&](const Tensor& w, WeightLayout layout, bool fused) {
    Tensor a = x.clone(), b = w.clone(), c = bias.clone();
    for (Tensor* leaf : {&a, &b, &c}) leaf->set_requires_grad();
    const Tensor y =
        fused ? linear_cross_entropy(a, b, c, targets) : linear(a, b, c, Activation::gelu, layout);
    fused ? y.backward() : y.backward(Tensor::full(y.shape(), 0.7));
    EXPECT_EQ(b.grad().dtype(), DType::f32);
    return std::array{y.to_vector<float>(), a.grad().to_vector<float>(), b.grad().to_vector<float>(),
                      c.grad().to_vector<float>()};
  };
  for (const bool mixed : {false, true}) {
    std::optional<MixedPrecision> guard;
    if (mixed) guard.emplace();
    for (const WeightLayout layout : {WeightLayout::out_in, WeightLayout::in_out}) {
      const bool in_first = layout == WeightLayout::in_out;
      const Tensor w = random_tensor(in_first ? Shape{40, 5} : Shape{5, 40}, 57).to(DType::bf16);
      EXPECT_EQ(run(w, layout, false), run(w.to(DType::f32), layout, false));
      if (in_first) continue;
      EXPECT_EQ(run(w, layout, true), run(w.to(DType::f32), layout, true));
    }
  }
}

TEST(Linear, SaysWhatIsWrong) {
  EXPECT_ERROR(linear(Tensor::zeros({2, 3}), Tensor::zeros({5, 4})),
               "weight [out, in], got f32[2, 3] and f32[5, 4]");
  EXPECT_ERROR(linear(Tensor::zeros({2, 4}), Tensor::zeros({5, 4}), Tensor::zeros({4})),
               "expected a bias [5], got f32[4]");
  EXPECT_ERROR(matmul(Tensor::zeros({2, 3}), Tensor::zeros({2, 3})),
               "of one type, got f32[2, 3] and f32[2, 3]");
  EXPECT_ERROR(matmul(Tensor::zeros({2, 3}), Tensor::zeros({3, 3}, DType::f64)),
               "of one type, got f32[2, 3] and f64[3, 3]");
}

}  // namespace
}  // namespace heed
