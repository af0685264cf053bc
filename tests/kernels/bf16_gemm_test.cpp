// The product of operands rounded to bf16, on AMX's tiles where the processor has them, and without.
#include "kernels/bf16_gemm.h"

#include "heed/dtype.h"
#include "kernels/cpu/gemm_paths.h"
#include "kernels/gemm.h"
#include "kernels/gemm_cases.h"
#include "kernels/kernel_case.h"

namespace heed {
namespace {

using Multiply = void(const kernels::Bf16Gemm&);

std::vector<Multiply*> multiplications() {
  std::vector<Multiply*> all = {kernels::detail::bf16_gemm_rounded};
  if (kernels::bf16_gemm_is_fast()) all.push_back(kernels::detail::bf16_gemm_amx);
  return all;
}

double as_bf16(float value) { return static_cast<double>(static_cast<float>(bfloat16(value))); }

void check_bf16(Multiply* multiply, const Product& p) {
  const std::int64_t lda = (p.ta ? p.m : p.k) + p.extra, ldb = (p.tb ? p.k : p.n) + p.extra,
                     ldc = p.n + p.extra;
  const auto a = numbers<float>((p.ta ? p.k : p.m) * lda, 70),
             b = numbers<float>((p.tb ? p.n : p.k) * ldb, 71);
  auto c = numbers<float>(p.m * ldc, 72);
  std::vector<double> want = as_double(c);
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l)
        sum += as_bf16(a[static_cast<std::size_t>(p.ta ? l * lda + i : i * lda + l)]) *
               as_bf16(b[static_cast<std::size_t>(p.tb ? j * ldb + l : l * ldb + j)]);
      double& value = want[static_cast<std::size_t>(i * ldc + j)];
      value = sum + (p.beta == 0 ? 0 : value);
    }
  }
  multiply({p.m, p.n, p.k, a.data(), p.ta ? 1 : lda, p.ta ? lda : 1, b.data(), p.tb ? ldb : 1, p.tb ? 1 : ldb,
            c.data(), ldc, p.beta != 0});
  reference::expect_near(c, want, p.k, 4 + std::sqrt(static_cast<double>(p.k)));
}

TEST(Bf16Gemm, EveryOrientation) {
  for (Multiply* multiply : multiplications()) {
    for (const Product& product : products()) {
      if (product.m > 0 && product.n > 0 && product.k > 0) check_bf16(multiply, product);
    }
    check_bf16(multiply, {true, false, 40, 50, 2100, 1, 1, 0});   // more steps than are rearranged at a time
    check_bf16(multiply, {false, true, 600, 31, 33, 1, 0, 5});    // more rows
    check_bf16(multiply, {false, true, 40, 1100, 530, 1, 0, 3});  // more columns
  }
}

TEST(Bf16Gemm, AddsUpInOneOrderForAnyThreads) {
  const std::int64_t m = 700, n = 300, k = 1100;
  const auto a = numbers<float>(m * k, 1), b = numbers<float>(n * k, 2);
  const auto product = [&] {
    std::vector<float> c(static_cast<std::size_t>(m * n));
    kernels::gemm<float>(false, true, m, n, k, 1, a.data(), k, b.data(), k, 0, c.data(), n,
                         kernels::Precision::bf16);
    return c;
  };
  const int before = threads();
  set_threads(1);
  const std::vector<float> alone = product();
  set_threads(4);
  EXPECT_EQ(alone, product());
  set_threads(before);
}

}  // namespace
}  // namespace heed
