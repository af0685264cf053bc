// What every kernel test needs: numbers, sizes around the vector length, misaligned arrays, and a run of the
// same check on every instruction set the machine has.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "heed/random.h"
#include "heed/threads.h"
#include "kernels/cpu/targets.h"
#include "reference/gradient.h"
#include "reference/tolerance.h"

namespace heed {

/// 0, 1, and around one vector of every length there is (4, 8, 16 lanes), and some vectors and a bit.
inline const std::vector<std::int64_t> kSizes = {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 53, 131};

/// Numbers in [low, high), the same for a seed whatever the type.
template <class T>
std::vector<T> numbers(std::int64_t n, std::uint64_t seed, double low = -2, double high = 2) {
  const RandomStream random{seed, 7};
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(low + (high - low) * static_cast<double>(random.uniform(i)));
  }
  return values;
}

template <class T>
std::vector<double> as_double(const std::vector<T>& values) {
  return std::vector<double>(values.begin(), values.end());
}

/// A copy of the values that starts one element past an allocation's alignment.
template <class T>
class Misaligned {
 public:
  explicit Misaligned(const std::vector<T>& values) : storage_(values.size() + 1) {
    std::copy(values.begin(), values.end(), storage_.begin() + 1);
  }
  T* data() { return storage_.data() + 1; }
  std::vector<T> values() const { return std::vector<T>(storage_.begin() + 1, storage_.end()); }

 private:
  std::vector<T> storage_;
};

/// Runs `check` on each instruction set in turn that the processor has and HEED_TARGET allows.
template <class Check>
void on_every_target(Check check) {
#if HWY_TARGETS == HWY_STATIC_TARGET  // on ARM, or built for one instruction set
  check();
#else
  const std::int64_t all = kernels::detail::allowed_targets();
  for (const std::int64_t target :
       {std::int64_t{HWY_AVX3}, std::int64_t{HWY_AVX2}, std::int64_t{HWY_SCALAR}}) {
    if (target != HWY_SCALAR && (all & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    SCOPED_TRACE(hwy::TargetName(target));
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
#endif
}

/// Expects `compute`, which returns a vector, to give the same bits with 1, 2 and 3 threads.
template <class Compute>
void expect_same_for_all_threads(Compute compute) {
  const int before = threads();
  set_threads(1);
  const auto one = compute();
  for (const int count : {2, 3}) {
    set_threads(count);
    EXPECT_EQ(one, compute()) << count << " threads";
  }
  set_threads(before);
}

template <class T>
class Kernel : public ::testing::Test {};
using FloatTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Kernel, FloatTypes, );

}  // namespace heed
