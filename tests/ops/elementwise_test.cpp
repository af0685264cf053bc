// Arithmetic with broadcasting, functions and activations: values against the standard library, gradients
// against central differences.
#include "heed/ops/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/ops/activation.h"
#include "kernels/kernel_case.h"
#include "reference/gradient_check.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_tensor;

struct Binary {
  const char* name;
  Tensor (*op)(const Tensor&, const Tensor&);
  double (*scalar)(double, double);
};
const Binary kBinaries[] = {{"add", add, [](double a, double b) { return a + b; }},
                            {"sub", sub, [](double a, double b) { return a - b; }},
                            {"mul", mul, [](double a, double b) { return a * b; }},
                            {"div", div, [](double a, double b) { return a / b; }}};

TEST(Elementwise, ArithmeticBroadcasts) {
  const std::pair<Shape, Shape> shapes[] = {{{2, 3}, {2, 3}},    {{2, 3}, {3}}, {{3}, {2, 3}},
                                            {{2, 1, 4}, {3, 1}}, {{}, {2}},     {{0, 3}, {1, 3}},
                                            {{1, 5}, {4, 1}}};
  for (const Binary& binary : kBinaries) {
    for (const auto& [sa, sb] : shapes) {
      SCOPED_TRACE(std::string(binary.name) + sa.str() + sb.str());
      const Tensor a = random_tensor(sa, 1), b = random_tensor(sb, 2, 0.5, 2.0);
      const Tensor y = binary.op(a, b);
      const Shape shape = broadcast_shapes("test", sa, sb);
      ASSERT_EQ(y.shape(), shape);
      const auto av = a.to_vector<double>(), bv = b.to_vector<double>(), yv = y.to_vector<double>();
      for (std::int64_t i = 0; i < y.numel(); ++i) {
        auto at = [&](const Shape& s, const std::vector<double>& v) {
          std::int64_t rest = i, index = 0, step = 1;
          for (int axis = 1; axis <= shape.rank(); ++axis) {
            const std::int64_t place = rest % shape[-axis];
            rest /= shape[-axis];
            if (axis <= s.rank()) {
              index += s[-axis] == 1 ? 0 : place * step;
              step *= s[-axis];
            }
          }
          return v[static_cast<std::size_t>(index)];
        };
        EXPECT_DOUBLE_EQ(yv[static_cast<std::size_t>(i)], binary.scalar(at(sa, av), at(sb, bv)));
      }
      if (y.numel() > 0) check_gradients([&](const auto& in) { return binary.op(in[0], in[1]); }, {a, b});
    }
  }
}

struct Unary {
  const char* name;
  Tensor (*op)(const Tensor&);
  double (*scalar)(double);
  double low, high;
};
const Unary kUnaries[] = {
    {"neg", neg, [](double x) { return -x; }, -2, 2},
    {"abs", abs, [](double x) { return std::abs(x); }, 0.1, 2},
    {"clamp", [](const Tensor& x) { return clamp(x, -0.5, 1.5); },
     [](double x) { return std::min(std::max(x, -0.5), 1.5); }, -3, 3},
    {"exp", exp, [](double x) { return std::exp(x); }, -3, 3},
    {"log", log, [](double x) { return std::log(x); }, 0.1, 5},
    {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.1, 5},
    {"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.1, 5},
    {"relu", relu, [](double x) { return std::max(x, 0.0); }, -2, 2},
    {"gelu", gelu, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }, -4, 4},
    {"gelu_tanh", gelu_tanh,
     [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }, -4,
     4},
    {"silu", silu, [](double x) { return x / (1 + std::exp(-x)); }, -5, 5},
    {"tanh", static_cast<Tensor (*)(const Tensor&)>(tanh), [](double x) { return std::tanh(x); }, -3, 3},
    {"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -5, 5}};

TEST(Elementwise, FunctionsEqualTheStandardLibrary) {
  for (const Unary& unary : kUnaries) {
    SCOPED_TRACE(unary.name);
    const Tensor x = random_tensor({7, 5}, 3, unary.low, unary.high);
    const auto xv = x.to_vector<double>(), yv = unary.op(x).to_vector<double>();
    const auto fv = unary.op(x.to(DType::f32)).to_vector<float>();
    for (std::size_t i = 0; i < xv.size(); ++i) {
      const double want = unary.scalar(xv[i]);
      EXPECT_NEAR(yv[i], want, 1e-13 * (1 + std::abs(want)));
      EXPECT_NEAR(fv[i], want, 2e-6 * (1 + std::abs(want)));
    }
    check_gradients([&](const auto& in) { return unary.op(in[0]); }, {x});
  }
}

TEST(Elementwise, ScalarsAndViews) {
  check_gradients([](const auto& in) { return in[0] * 3.0 + 1.0; }, {random_tensor({4}, 5)});
  EXPECT_EQ((Tensor::full({2}, 3.0) - 1.0).to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST(Elementwise, RefusesMixedTypesAndIntegers) {
  EXPECT_THROW(add(Tensor::zeros({2}), Tensor::zeros({2}, DType::f64)), Error);
  EXPECT_THROW(add(Tensor::zeros({2}, DType::i64), Tensor::zeros({2}, DType::i64)), Error);
  EXPECT_THROW(mul(Tensor::zeros({2}), Tensor::zeros({3})), Error);
  EXPECT_THROW(activation_named("mish"), Error);
  EXPECT_THROW(clamp(Tensor::zeros({2}), 1.0, -1.0), Error);
}

TEST(Gated, EqualsActivationTimesValue) {
  for (const Activation activation :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::sigmoid,
        Activation::tanh, Activation::none}) {
    SCOPED_TRACE(static_cast<int>(activation));
    const Tensor gate = random_tensor({3, 7}, 31, -6, 6), x = random_tensor({3, 7}, 32);
    const Tensor want = activate(gate, activation) * x;
    on_every_target([&] {
      expect_near(gated(gate, x, activation), want, 1e-14);
      expect_near(gated(gate.to(DType::f32), x.to(DType::f32), activation), want, 1e-5);
      check_gradients([&](const auto& in) { return gated(in[0], in[1], activation); }, {gate, x});
    });
  }
  EXPECT_THROW(gated(Tensor::zeros({2}), Tensor::zeros({3}), Activation::silu), Error);
}

}  // namespace
}  // namespace heed
