// Matrix products against the triple loop in double.
#include "kernels/gemm.h"

#include "kernels/gemm_cases.h"
#include "kernels/kernel_case.h"

namespace heed {
namespace {

template <class T>
std::vector<double> product_oracle(const Product& p, const std::vector<T>& a, std::int64_t lda,
                                   const std::vector<T>& b, std::int64_t ldb, const std::vector<T>& c,
                                   std::int64_t ldc) {
  std::vector<double> y = as_double(c);
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l) {
        sum += static_cast<double>(a[static_cast<std::size_t>(p.ta ? l * lda + i : i * lda + l)]) *
               static_cast<double>(b[static_cast<std::size_t>(p.tb ? j * ldb + l : l * ldb + j)]);
      }
      double& value = y[static_cast<std::size_t>(i * ldc + j)];
      value = p.alpha * sum + (p.beta == 0 ? 0 : p.beta * value);
    }
  }
  return y;
}

template <class T>
void check_product(const Product& p) {
  const std::int64_t lda = (p.ta ? p.m : p.k) + p.extra, ldb = (p.tb ? p.k : p.n) + p.extra,
                     ldc = p.n + p.extra;
  const auto a = numbers<T>((p.ta ? p.k : p.m) * lda, 70), b = numbers<T>((p.tb ? p.n : p.k) * ldb, 71);
  auto c = numbers<T>(p.m * ldc, 72);
  const auto want = product_oracle(p, a, lda, b, ldb, c, ldc);
  if (p.beta == 0 && p.extra == 0) std::fill(c.begin(), c.end(), std::numeric_limits<T>::quiet_NaN());
  kernels::gemm(arguments(p, a.data(), b.data(), c.data()));
  reference::expect_near(c, want, p.k, 4 + std::sqrt(static_cast<double>(p.k)));
}

TYPED_TEST(Kernel, GemmOfEveryOrientation) {
  using T = TypeParam;
  on_every_target([] {
    for (const Product& product : products()) check_product<T>(product);
  });
}

TYPED_TEST(Kernel, GemmBatchedIsManyGemms) {
  using T = TypeParam;
  for (const std::int64_t size : {3, 40, 160}) {
    const std::int64_t square = size * size, count = 5;
    const auto a = numbers<T>(count * square, 73), b = numbers<T>(square, 74);
    std::vector<T> c(static_cast<std::size_t>(count * square)), want = c;
    const Product product{false, true, size, size, size, 1, 0, 0};
    kernels::gemm_batched({count, square, 0, square}, arguments(product, a.data(), b.data(), c.data()));
    for (std::int64_t i = 0; i < count; ++i)
      kernels::gemm(arguments(product, a.data() + i * square, b.data(), want.data() + i * square));
    reference::expect_near(c, as_double(want), size, std::sqrt(static_cast<double>(size)));
  }
}

TYPED_TEST(Kernel, BiasAndItsGradient) {
  using T = TypeParam;
  on_every_target([] {
    for (const std::int64_t n : kSizes) {
      const auto x = numbers<T>(7 * n, 75), bias = numbers<T>(n, 76);
      auto y = x;
      kernels::add_bias(y.data(), bias.data(), 7, n);
      std::vector<double> sums(bias.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t column = i % bias.size();
        ASSERT_EQ(y[i], x[i] + bias[column]);
        sums[column] += static_cast<double>(x[i]);
      }
      std::vector<T> db(bias.size());
      kernels::bias_gradient(x.data(), db.data(), 7, n);
      reference::expect_near(db, sums);
    }
  });
}

}  // namespace
}  // namespace heed
