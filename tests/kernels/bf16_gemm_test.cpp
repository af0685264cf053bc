// The product of operands rounded to bf16, on AMX's tiles where the processor has them, and without.
#include "kernels/gemm.h"

#include "heed/dtype.h"
#include "kernels/cpu/gemm_paths.h"
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

// Its operands and result as bf16_gemm takes them.
kernels::Bf16Gemm rounded(const kernels::Gemm<float>& g) {
  return {g.m, g.n, g.k, g.a, g.b.transposed(), g.c, g.ldc, g.beta != 0};
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
  multiply(rounded(arguments(p, a.data(), b.data(), c.data())));
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

// A matrix that is stored in bf16 gives the bits of the same numbers in f32.
TEST(Bf16Gemm, ReadsStoredNumbers) {
  for (const Product& p : products()) {
    if (p.ta || p.alpha != 1 || p.beta != 0) continue;
    const std::int64_t ldb = p.tb ? p.k : p.n;
    const auto a = numbers<float>(p.m * p.k, 70);
    std::vector<float> b = numbers<float>((p.tb ? p.n : p.k) * ldb, 71);
    std::vector<bfloat16> stored;
    for (float& value : b) value = static_cast<float>(stored.emplace_back(value));
    std::vector<float> wide(static_cast<std::size_t>(p.m * p.n)), narrow = wide;
    const auto same = [&](const char* what) { EXPECT_EQ(wide, narrow) << what << p.m << p.n << p.k << p.tb; };
    kernels::Gemm<float> of_floats = arguments(p, a.data(), b.data(), wide.data()), of_stored = of_floats;
    of_stored.b.data = stored.data();
    of_stored.b.dtype = DType::bf16;
    of_stored.c = narrow.data();
    if (p.m > 0 && p.n > 0 && p.k > 0) {
      for (Multiply* multiply : multiplications()) {
        multiply(rounded(of_floats));
        multiply(rounded(of_stored));
        same("");
      }
    }
    for (const auto precision : {kernels::Precision::exact, kernels::Precision::bf16}) {
      of_floats.precision = of_stored.precision = precision;
      kernels::gemm(of_floats);
      kernels::gemm(of_stored);
      same("gemm ");
    }
  }
}

TEST(Bf16Gemm, AddsUpInOneOrderForAnyThreads) {
  const std::int64_t m = 700, n = 300, k = 1100;
  const auto a = numbers<float>(m * k, 1), b = numbers<float>(n * k, 2);
  const auto product = [&] {
    std::vector<float> c(static_cast<std::size_t>(m * n));
    kernels::Gemm<float> args = arguments({false, true, m, n, k, 1, 0, 0}, a.data(), b.data(), c.data());
    args.precision = kernels::Precision::bf16;
    kernels::gemm(args);
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
