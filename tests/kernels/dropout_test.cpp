// The vectorized random numbers are, bit for bit, those of heed::RandomStream, at any place of the sequence.
#include "kernels/elementwise.h"

#include <limits>

#include "kernels/kernel_case.h"

namespace heed {
namespace {

TYPED_TEST(Kernel, DropoutKeepsWhatTheStreamSays) {
  using T = TypeParam;
  on_every_target([] {
    const RandomStream random{0x123456789abcdefull, 0xfedcba9876543210ull};
    for (const double p : {0.0, 0.1, 0.5, 0.999}) {
      for (const std::int64_t n : {0, 1, 3, 4, 5, 63, 64, 65, 1023, 1024, 1025, 7001}) {
        const auto x = numbers<T>(n, 60);
        std::vector<T> y(x.size());
        kernels::dropout(x.data(), y.data(), n, p, random);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const bool kept = static_cast<double>(random.uniform(i)) >= p;
          ASSERT_EQ(y[i], kept ? x[i] * static_cast<T>(1 / (1 - p)) : T(0)) << i;
        }
      }
    }
  });
}

TYPED_TEST(Kernel, DropoutOfEverything) {
  using T = TypeParam;
  const std::vector<T> x = {1, std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()};
  std::vector<T> y(3, T(5));
  kernels::dropout(x.data(), y.data(), 3, 1.0, RandomStream{1, 2});
  EXPECT_EQ(y, (std::vector<T>{0, 0, 0}));
}

TYPED_TEST(Kernel, DropoutDoesNotDependOnThreads) {
  using T = TypeParam;
  const auto x = numbers<T>(50000, 62);
  expect_same_for_all_threads([&] {
    std::vector<T> y(x.size());
    kernels::dropout(x.data(), y.data(), 50000, 0.3, RandomStream{5, 6});
    return y;
  });
}

}  // namespace
}  // namespace heed
