// Reductions and softmax against plain sums in double.
#include <limits>

#include "kernels/kernel_case.h"
#include "kernels/reduce.h"
#include "kernels/softmax.h"

namespace heed {
namespace {

struct Sizes {
  std::int64_t outer, n, inner;
};
const std::vector<Sizes> kReductions = {{1, 0, 1},    {3, 0, 2},     {0, 5, 2},    {2, 5, 0},
                                        {1, 1, 1},    {4, 7, 1},     {4, 131, 1},  {3, 17, 5},
                                        {2, 700, 33}, {1, 40000, 1}, {1, 3000, 19}};

TYPED_TEST(Kernel, SumMeanMax) {
  using T = TypeParam;
  on_every_target([] {
    for (const Sizes& s : kReductions) {
      const auto x = numbers<T>(s.outer * s.n * s.inner, 4);
      std::vector<double> sums, maxima;
      std::vector<std::int64_t> places;
      for (std::int64_t o = 0; o < s.outer; ++o) {
        for (std::int64_t j = 0; j < s.inner; ++j) {
          double sum = 0, largest = -std::numeric_limits<double>::infinity();
          std::int64_t place = 0;
          for (std::int64_t i = 0; i < s.n; ++i) {
            const double v = static_cast<double>(x[static_cast<std::size_t>((o * s.n + i) * s.inner + j)]);
            sum += v;
            if (v > largest) largest = v, place = i;
          }
          sums.push_back(sum);
          maxima.push_back(largest);
          places.push_back(place);
        }
      }
      std::vector<T> y(sums.size());
      std::vector<std::int64_t> arg(sums.size());
      kernels::sum(x.data(), y.data(), {s.outer, s.n, s.inner});
      reference::expect_near(y, sums, std::is_same_v<T, double> ? s.n : 1);
      kernels::max(x.data(), y.data(), arg.data(), {s.outer, s.n, s.inner});
      reference::expect_near(y, maxima, 0, 0);
      EXPECT_EQ(arg, places);
    }
  });
}

TYPED_TEST(Kernel, MaxPrefersTheFirstAndNaN) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN(), inf = std::numeric_limits<T>::infinity();
  on_every_target([=] {
    std::vector<T> x = {1, 5, 5, 2, -inf, inf};
    T y = 0;
    std::int64_t arg = -1;
    kernels::max(x.data(), &y, &arg, {1, 4, 1});
    EXPECT_EQ(arg, 1);
    kernels::max(x.data(), &y, &arg, {1, 6, 1});
    EXPECT_EQ(arg, 5);
    x[3] = nan;
    kernels::max(x.data(), &y, &arg, {1, 6, 1});
    EXPECT_EQ(arg, 3);
    EXPECT_TRUE(std::isnan(y));
    T columns[2];
    std::int64_t places[2];
    kernels::max(x.data(), columns, places, {1, 3, 2});
    EXPECT_EQ(places[0], 1);
    EXPECT_EQ(places[1], 1);
    EXPECT_TRUE(std::isnan(columns[1]));
  });
}

TYPED_TEST(Kernel, WholeArrayReductions) {
  using T = TypeParam;
  on_every_target([] {
    for (const std::int64_t n : {0, 1, 17, 100003}) {
      auto x = numbers<T>(n, 5);
      double squares = 0;
      for (const T v : x) squares += static_cast<double>(v) * static_cast<double>(v);
      EXPECT_NEAR(kernels::sum_of_squares(x.data(), n), squares, 1e-12 * (1 + squares));
      EXPECT_TRUE(kernels::all_finite(x.data(), n));
      if (n == 0) continue;
      for (const T bad : {std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()}) {
        const T kept = std::exchange(x[static_cast<std::size_t>(n - 1)], bad);
        EXPECT_FALSE(kernels::all_finite(x.data(), n));
        x[static_cast<std::size_t>(n - 1)] = kept;
      }
    }
  });
}

TYPED_TEST(Kernel, SumsDoNotDependOnThreads) {
  using T = TypeParam;
  const auto x = numbers<T>(300000, 6);
  expect_same_for_all_threads([&] {
    std::vector<T> y(1 + 10);
    kernels::sum(x.data(), y.data(), {1, 300000, 1});
    kernels::sum(x.data(), y.data() + 1, {1, 30000, 10});
    y.push_back(static_cast<T>(kernels::sum_of_squares(x.data(), 300000)));
    return y;
  });
}

std::vector<double> softmax_oracle(const std::vector<double>& x, std::int64_t n, bool logarithm) {
  std::vector<double> y;
  for (std::size_t start = 0; start < x.size(); start += static_cast<std::size_t>(n)) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, x[start + static_cast<std::size_t>(i)]);
    for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[start + static_cast<std::size_t>(i)] - largest);
    for (std::int64_t i = 0; i < n; ++i) {
      const double d = x[start + static_cast<std::size_t>(i)] - largest;
      y.push_back(logarithm ? d - std::log(sum) : std::exp(d) / sum);
    }
  }
  return y;
}

TYPED_TEST(Kernel, Softmax) {
  using T = TypeParam;
  on_every_target([] {
    for (const std::int64_t n : kSizes) {
      if (n == 0) continue;
      const auto x = numbers<T>(3 * n, 8, -30, 30);
      std::vector<T> y(x.size());
      kernels::softmax(x.data(), y.data(), 3, n);
      reference::expect_near(y, softmax_oracle(as_double(x), n, false), n);
      kernels::log_softmax(x.data(), y.data(), 3, n);
      reference::expect_near(y, softmax_oracle(as_double(x), n, true), n, 30);
    }
    kernels::softmax<T>(nullptr, nullptr, 0, 5);
    kernels::log_softmax<T>(nullptr, nullptr, 5, 0);
  });
}

TYPED_TEST(Kernel, SoftmaxOfTheLiterature) {
  using T = TypeParam;
  const std::vector<T> x = {8, -4, 6, 1, T(-0.5), T(0.75)};
  std::vector<T> y(6);
  kernels::softmax(x.data(), y.data(), 2, 3);
  const double want[] = {0.881, 0.000, 0.119, 0.500, 0.111, 0.389};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(static_cast<double>(y[static_cast<std::size_t>(i)]), want[i], 5e-4);
}

TYPED_TEST(Kernel, SoftmaxOfMaskedRows) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  on_every_target([=] {
    const std::vector<T> x = {-inf, -inf, -inf, 1, -inf, 1, nan, -inf, -inf},
                         dy = {1, 2, 3, 1, 2, 3, 1, 2, 3};
    std::vector<T> y(9), dx(9);
    kernels::softmax(x.data(), y.data(), 3, 3);
    EXPECT_EQ(std::vector<T>(y.begin(), y.begin() + 6), (std::vector<T>{0, 0, 0, T(0.5), 0, T(0.5)}));
    EXPECT_TRUE(std::isnan(y[6]));  // a NaN is not a masked row
    kernels::softmax_backward(y.data(), dy.data(), dx.data(), 2, 3);
    EXPECT_EQ(std::vector<T>(dx.begin(), dx.begin() + 6), (std::vector<T>{0, 0, 0, T(-0.5), 0, T(0.5)}));
    kernels::log_softmax(x.data(), y.data(), 2, 3);
    EXPECT_EQ(y[0], -inf);
    kernels::log_softmax_backward(y.data(), dy.data(), dx.data(), 2, 3);
    EXPECT_EQ(std::vector<T>(dx.begin(), dx.begin() + 3), (std::vector<T>{0, 0, 0}));
  });
}

TEST(KernelGradient, Softmax) {
  on_every_target([] {
    for (const std::int64_t n : {1, 5, 19}) {
      const auto x = numbers<double>(2 * n, 12), dy = numbers<double>(2 * n, 13);
      std::vector<double> y(x.size()), dx(x.size());
      for (const bool logarithm : {false, true}) {
        (logarithm ? kernels::log_softmax<double> : kernels::softmax<double>)(x.data(), y.data(), 2, n);
        (logarithm ? kernels::log_softmax_backward<double>
                   : kernels::softmax_backward<double>)(y.data(), dy.data(), dx.data(), 2, n);
        const auto want = reference::numeric_gradient(
            [&](const std::vector<double>& v) { return softmax_oracle(v, n, logarithm); }, x, dy);
        for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(dx[i], want[i], 1e-8);
      }
    }
  });
}

}  // namespace
}  // namespace heed
