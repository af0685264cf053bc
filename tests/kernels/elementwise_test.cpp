// Element-wise kernels against the standard library in double, on every instruction set, over sizes around
// the vector length and over the whole range of floats; gradients against central differences.
#include "kernels/elementwise.h"

#include <limits>
#include <string>

#include "kernels/kernel_case.h"

namespace heed {
namespace {

template <class T>
using Unary = void (*)(const T*, T*, std::int64_t);
template <class T>
using Backward = void (*)(const T*, const T*, T*, std::int64_t);

struct Function {
  std::string name;
  double (*oracle)(double);
  Unary<float> f32;
  Unary<double> f64;
  Backward<double> backward_f64;
  Backward<float> backward_f32;
  bool backward_takes_output;
  double low;  // arguments for which it is defined
};

double oracle_sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double oracle_gelu(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double oracle_gelu_tanh(double x) {
  return x * oracle_sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}
// tanh(log(1 + exp(x)))
double oracle_mish_weight(double x) {
  const double n = std::exp(std::min(x, 40.0));
  return n * (n + 2) / (n * (n + 2) + 2);
}

#define HEED_FUNCTION(name, oracle, output, low)                                                       \
  Function {                                                                                           \
#name, [](double x) -> double { return oracle; }, kernels::name < float>, kernels::name < double>, \
                                                   kernels::name##_backward < double>,                 \
                                                   kernels::name##_backward < float>, output, low      \
  }
const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      HEED_FUNCTION(abs, std::abs(x), false, -100),
      HEED_FUNCTION(exp, std::exp(x), true, -100),
      HEED_FUNCTION(log, std::log(x), false, 0),
      HEED_FUNCTION(sqrt, std::sqrt(x), true, 0),
      HEED_FUNCTION(rsqrt, 1 / std::sqrt(x), true, 0),
      HEED_FUNCTION(relu, x > 0 ? x : 0 * x, false, -100),
      HEED_FUNCTION(sigmoid, oracle_sigmoid(x), true, -100),
      HEED_FUNCTION(tanh, std::tanh(x), true, -100),
      HEED_FUNCTION(gelu, oracle_gelu(x), false, -100),
      HEED_FUNCTION(gelu_tanh, oracle_gelu_tanh(x), false, -100),
      HEED_FUNCTION(silu, x * oracle_sigmoid(x), false, -100),
      HEED_FUNCTION(quick_gelu, x * oracle_sigmoid(1.702 * x), false, -100),
      HEED_FUNCTION(gelu_10, std::min(oracle_gelu(x), 10.0), false, -100),
      HEED_FUNCTION(relu2, x > 0 ? x * x : 0 * x, false, -100),
      HEED_FUNCTION(relu6, std::min(x > 0 ? x : 0 * x, 6.0), false, -100),
      HEED_FUNCTION(leaky_relu, x > 0 ? x : 0.01 * x, false, -100),
      HEED_FUNCTION(hardswish,
                    x <= -3  ? 0.0
                    : x >= 3 ? x
                             : x * (x + 3) / 6,
                    false, -100),
      HEED_FUNCTION(mish, x * oracle_mish_weight(x), false, -100),
      HEED_FUNCTION(laplace, 0.5 * std::erfc(-(x - 0.707107) / 0.282095 / std::sqrt(2.0)), false, -100),
      HEED_FUNCTION(sqrt_softplus, std::sqrt(std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)))), false,
                    -100),
  };
  return all;
}
#undef HEED_FUNCTION

template <class T>
Unary<T> forward_of(const Function& f) {
  if constexpr (std::is_same_v<T, float>)
    return f.f32;
  else
    return f.f64;
}

/// Largest |got - want| / |want|, where results near the smallest normal number count by absolute distance.
template <class T>
double worst_error(const Function& f, const std::vector<T>& x, double* where) {
  std::vector<T> y(x.size());
  forward_of<T>(f)(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = f.oracle(static_cast<double>(x[i]));
    const double got = static_cast<double>(y[i]);
    if (got == want || static_cast<T>(want) == y[i] || (std::isnan(got) && std::isnan(want))) continue;
    // A factor of the result, x up to 100 times smaller, may be denormal before the result is.
    const double floor = 128 * static_cast<double>(std::numeric_limits<T>::min());
    double error = std::abs(got - want) / std::max(std::abs(want), floor);
    // In double the oracle's own tail is only as good as the rounding of x / sqrt(2) lets it be.
    if (std::is_same_v<T, double>) {
      if (f.name == "gelu" || f.name == "gelu_10") error /= 1 + static_cast<double>(x[i] * x[i]);
    }
    if (!(error <= worst)) worst = error, *where = static_cast<double>(x[i]);
  }
  return worst;
}

/// Where a vanishing tail is as exact as the rounded argument of its exponential lets it be.
bool has_rounded_tail(const Function& f) {
  return f.name == "gelu_tanh" || f.name == "quick_gelu" || f.name == "laplace" || f.name == "sqrt_softplus";
}

TYPED_TEST(Kernel, UnaryFunctionsAreAccurateOverTheWholeRange) {
  using T = TypeParam;
  on_every_target([] {
    for (const Function& f : functions()) {
      if (has_rounded_tail(f)) continue;
      std::vector<T> x;
      for (const double high : {1e-30, 1e-3, 0.7, 1.5, 6.0, 20.0, 95.0}) {
        const auto more = numbers<T>(3001, 11, f.low < 0 ? -high : 0, high);
        x.insert(x.end(), more.begin(), more.end());
      }
      for (int e = -126; e < 127; ++e) x.push_back(static_cast<T>(std::ldexp(1.3, e)));
      double where = 0;
      const double worst = worst_error<T>(f, x, &where);
      EXPECT_LE(worst, (std::is_same_v<T, float>) ? 4e-7 : 1e-14) << f.name << " at " << where;
    }
  });
}

TYPED_TEST(Kernel, FunctionsOfRoundedTailsAreAccurate) {
  using T = TypeParam;
  on_every_target([] {
    for (const Function& f : functions()) {
      if (!has_rounded_tail(f)) continue;
      const auto x = numbers<T>(5001, 3, -6, 6);
      std::vector<T> y(x.size());
      forward_of<T>(f)(x.data(), y.data(), 5001);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double want = f.oracle(static_cast<double>(x[i]));
        EXPECT_NEAR(static_cast<double>(y[i]), want,
                    4 * reference::tolerance<T>() * std::max(std::abs(want), 0.05))
            << f.name << " at " << x[i];
      }
    }
  });
}

TYPED_TEST(Kernel, UnaryFunctionsAtTheEdges) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T huge = std::numeric_limits<T>::max();
  on_every_target([=] {
    const std::vector<T> x = {inf, -inf, nan, T(0), -T(0), huge, -huge};
    const auto results = [&](const char* name) {
      for (const Function& f : functions()) {
        if (f.name != name) continue;
        std::vector<T> y(x.size());
        forward_of<T>(f)(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
        EXPECT_TRUE(std::isnan(y[2])) << name;
        y.erase(y.begin() + 2);
        return y;
      }
      return std::vector<T>();
    };
    EXPECT_EQ(results("exp"), (std::vector<T>{inf, 0, 1, 1, inf, 0}));
    EXPECT_EQ(results("tanh"), (std::vector<T>{1, -1, 0, 0, 1, -1}));
    EXPECT_TRUE(std::signbit(results("tanh")[3]));
    EXPECT_EQ(results("sigmoid"), (std::vector<T>{1, 0, T(0.5), T(0.5), 1, 0}));
    EXPECT_EQ(results("relu"), (std::vector<T>{inf, 0, 0, 0, huge, 0}));
    EXPECT_EQ(results("relu6"), (std::vector<T>{6, 0, 0, 0, 6, 0}));
    EXPECT_EQ(results("gelu_10"), (std::vector<T>{10, 0, 0, 0, 10, 0}));
    EXPECT_EQ(results("relu2"), (std::vector<T>{inf, 0, 0, 0, inf, 0}));
    for (const char* name : {"gelu", "gelu_tanh", "silu", "quick_gelu", "mish", "hardswish"}) {
      EXPECT_EQ(results(name), (std::vector<T>{inf, 0, 0, 0, huge, 0})) << name;
    }
    const std::vector<T> logs = results("log");
    EXPECT_EQ(logs[0], inf);
    EXPECT_TRUE(std::isnan(logs[1]));
    EXPECT_EQ(logs[2], -inf);
    EXPECT_EQ(logs[3], -inf);
    EXPECT_TRUE(std::isnan(logs[5]));
  });
}

TYPED_TEST(Kernel, EverySizeAndAlignmentGivesTheSameNumbers) {
  using T = TypeParam;
  on_every_target([] {
    const auto all = numbers<T>(140, 5, 0.1, 3);
    for (const Function& f : functions()) {
      std::vector<T> want(all.size());
      forward_of<T>(f)(all.data(), want.data(), 140);
      for (const std::int64_t n : kSizes) {
        Misaligned<T> x(std::vector<T>(all.begin(), all.begin() + n));
        std::vector<T> y(static_cast<std::size_t>(n) + 2, T(77));
        forward_of<T>(f)(x.data(), y.data() + 1, n);
        EXPECT_EQ(y.front(), T(77)) << f.name;
        EXPECT_EQ(y.back(), T(77)) << f.name;
        EXPECT_TRUE(std::equal(y.begin() + 1, y.end() - 1, want.begin())) << f.name << " of " << n;
        forward_of<T>(f)(x.data(), x.data(), n);  // in place
        EXPECT_TRUE(std::equal(want.begin(), want.begin() + n, x.data())) << f.name << " in place";
      }
    }
  });
}

TEST(KernelGradient, UnaryFunctions) {
  on_every_target([] {
    for (const Function& f : functions()) {
      const auto x = numbers<double>(41, 9, f.low < 0 ? -3 : 0.2, 3);
      const auto dy = numbers<double>(41, 10);
      std::vector<double> y(41), dx(41);
      f.f64(x.data(), y.data(), 41);
      f.backward_f64(f.backward_takes_output ? y.data() : x.data(), dy.data(), dx.data(), 41);
      for (std::size_t i = 0; i < 41; ++i) {
        const double slope = (f.oracle(x[i] + 1e-5) - f.oracle(x[i] - 1e-5)) / 2e-5;
        EXPECT_NEAR(dx[i], dy[i] * slope, 1e-7) << f.name << " at " << x[i];
      }
      // Float against the double backward at the same arguments.
      const auto argument = f.backward_takes_output ? y : x;
      const std::vector<float> a(argument.begin(), argument.end()), g(dy.begin(), dy.end());
      std::vector<float> dx32(41);
      f.backward_f32(a.data(), g.data(), dx32.data(), 41);
      reference::expect_near(dx32, dx, 1, 4);
    }
  });
}

TEST(KernelGradient, ActivationsAreFiniteAtHugeArguments) {
  on_every_target([] {
    const std::vector<float> x = {1e38f, -1e38f, 200.0f, -200.0f}, dy(4, 1.0f);
    for (const auto backward :
         {kernels::gelu_backward<float>, kernels::gelu_tanh_backward<float>, kernels::silu_backward<float>}) {
      std::vector<float> dx(4);
      backward(x.data(), dy.data(), dx.data(), 4);
      EXPECT_EQ(dx, (std::vector<float>{1, 0, 1, 0}));
    }
  });
}

template <class T>
T apply(int op, T a, T b) {
  return op == 0 ? a + b : op == 1 ? a - b : op == 2 ? a * b : a / b;
}

TYPED_TEST(Kernel, ArithmeticFlat) {
  using T = TypeParam;
  using Binary = void (*)(const T*, const T*, T*, std::int64_t);
  const Binary ops[] = {kernels::add<T>, kernels::sub<T>, kernels::mul<T>, kernels::div<T>};
  on_every_target([&] {
    for (const std::int64_t n : kSizes) {
      const auto a = numbers<T>(n, 1), b = numbers<T>(n, 2, 0.5, 2);
      for (int op = 0; op < 4; ++op) {
        std::vector<T> y(a.size());
        ops[op](a.data(), b.data(), y.data(), n);
        for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], apply(op, a[i], b[i]));
      }
      std::vector<T> y(a.size());
      kernels::scale(a.data(), T(3), y.data(), n);
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], a[i] * 3);
      kernels::add_scalar(a.data(), T(3), y.data(), n);
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], a[i] + 3);
      std::fill(y.begin(), y.end(), T(2));
      kernels::axpy(T(0.5), a.data(), y.data(), n);
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 2 + T(0.5) * a[i]);
    }
  });
}

/// y by the definition: an odometer over the result.
template <class T>
std::vector<T> broadcast_oracle(int op, const std::vector<T>& a, const std::vector<T>& b,
                                const kernels::Broadcast& s) {
  std::vector<T> y;
  std::array<std::int64_t, kernels::kMaxRank> index{};
  std::int64_t total = 1;
  for (int axis = 0; axis < s.rank; ++axis) total *= s.sizes[axis];
  for (std::int64_t i = 0; i < total; ++i) {
    std::int64_t ia = 0, ib = 0;
    for (int axis = 0; axis < s.rank; ++axis) {
      ia += index[axis] * s.strides_a[axis];
      ib += index[axis] * s.strides_b[axis];
    }
    y.push_back(apply(op, a[static_cast<std::size_t>(ia)], b[static_cast<std::size_t>(ib)]));
    for (int axis = s.rank - 1; axis >= 0 && ++index[axis] == s.sizes[axis]; --axis) index[axis] = 0;
  }
  return y;
}

TYPED_TEST(Kernel, ArithmeticBroadcast) {
  using T = TypeParam;
  using Binary = void (*)(const T*, const T*, T*, const kernels::Broadcast&);
  const Binary ops[] = {kernels::add<T>, kernels::sub<T>, kernels::mul<T>, kernels::div<T>};
  const std::vector<kernels::Broadcast> shapes = {
      {0, {}, {}, {}},
      {1, {19}, {1}, {0}},
      {1, {70000}, {0}, {1}},
      {2, {5, 19}, {19, 1}, {0, 1}},             // a row vector
      {2, {5, 19}, {19, 1}, {1, 0}},             // a column vector
      {2, {5, 19}, {1, 5}, {19, 1}},             // a transposed
      {3, {3, 4, 17}, {68, 17, 1}, {17, 0, 1}},  // middle axis repeated
      {4, {2, 3, 4, 5}, {0, 20, 5, 1}, {60, 0, 0, 1}},
      {3, {3, 0, 17}, {68, 17, 1}, {17, 0, 1}},  // empty
      {3, {2, 1, 9}, {9, 9, 1}, {9, 0, 1}},
      {2, {9, 4}, {0, 0}, {8, 2}},
  };
  const auto a = numbers<T>(70000, 1), b = numbers<T>(70000, 2, 0.5, 2);
  on_every_target([&] {
    for (const kernels::Broadcast& shape : shapes) {
      for (int op = 0; op < 4; ++op) {
        const auto want = broadcast_oracle(op, a, b, shape);
        std::vector<T> y(want.size());
        ops[op](a.data(), b.data(), y.data(), shape);
        EXPECT_EQ(y, want);
      }
    }
  });
}

}  // namespace
}  // namespace heed
