// The measured limits are rates that a machine can have, and no kernel is faster than they say.
#include "kernels/machine.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

#include "kernels/cpu/gemm_paths.h"
#include "kernels/gemm_cases.h"
#include "kernels/kernel_case.h"

namespace heed {
namespace {

TYPED_TEST(Kernel, ArithmeticRateIsThatOfSomeProcessor) {
  on_every_target([] {
    const double rate = kernels::arithmetic_rate<TypeParam>(0.002);
    EXPECT_GT(rate, 1e7);   // even a busy machine under a sanitizer
    EXPECT_LT(rate, 1e15);  // a loop that was optimized away is faster
  });
}

TEST(Machine, Int8RateIsThatOfSomeProcessor) {
  on_every_target([] {
    const double rate = kernels::int8_rate(0.002);
    if (std::string(kernels::int8_instruction()) == "none") {
      EXPECT_EQ(rate, 0);
    } else {
      EXPECT_GT(rate, 1e7);
      EXPECT_LT(rate, 1e16);
    }
  });
}

// scripts/arm64.sh runs this with the name that it expects of a processor: HEED_TARGET holds, or it throws.
TEST(Machine, TargetsAreNamedAfterTheirProductsOfBytes) {
  const std::map<std::string, std::string> products = {
      {"amx", "tdpbsud"},        {"avx512-vnni", "vpdpbusd"}, {"avx512", "vpmaddubsw"},
      {"avx2-vnni", "vpdpbusd"}, {"avx2", "vpmaddubsw"},      {"portable", "none"},
      {"neon-i8mm", "usdot"},    {"neon-dotprod", "sdot"},    {"neon", "smull"}};
  const std::string name = kernels::target_name();
  if (name == "amx" && kernels::detail::vector_bits() != 512)
    GTEST_SKIP() << "a build for less than the processor has";
  ASSERT_TRUE(products.contains(name)) << name;
  EXPECT_EQ(products.at(name), kernels::int8_instruction());
}

TEST(Machine, ReadRateIsThatOfSomeMemory) {
  on_every_target([] {
    for (const std::int64_t bytes : {4, 100000, 1 << 24}) {
      const std::vector<float> data(static_cast<std::size_t>(bytes) / sizeof(float), 1.0f);
      const double rate = kernels::read_rate(data.data(), bytes);
      EXPECT_GT(rate, 100) << bytes;
      EXPECT_LT(rate, 1e14) << bytes;
    }
  });
}

// The best of the limit against the median of the product, and once more where other programs disturbed them.
TEST(Machine, NoProductIsFasterThanTheArithmeticRate) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer slows the loop that measures the limit, not the library that multiplies";
#endif
  constexpr std::int64_t n = 256;
  const auto a = numbers<float>(n * n, 1), b = numbers<float>(n * n, 2);
  std::vector<float> c(a.size());
  double limit = 0, rate = 1;
  for (int attempt = 0; attempt < 20 && rate >= 1.2 * limit; ++attempt) {
    std::vector<double> rates;
    for (int i = 0; i < 15; ++i) {
      limit = std::max(limit, kernels::arithmetic_rate<float>(0.002));
      const auto start = std::chrono::steady_clock::now();
      kernels::gemm(arguments({false, false, n, n, n, 1, 0, 0}, a.data(), b.data(), c.data()));
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      rates.push_back(2.0 * n * n * n / elapsed.count());
    }
    std::nth_element(rates.begin(), rates.begin() + 7, rates.end());
    rate = rates[7];
  }
  EXPECT_LT(rate, 1.2 * limit);
}

}  // namespace
}  // namespace heed
