// Dropout: the mask is drawn block by block into the cache and used at once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dropout.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/philox-inl.h"
#include "kernels/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void dropout(const T* x, T* y, int64_t n, double p, RandomStream random) {
  const Keep keep(random, p);
  // A dropped infinity is 0, not NaN.
  const auto drop = [](auto v, auto f)
                        HWY_ATTR { return hn::IfThenElseZero(hn::Ne(f, hn::Zero(Tag<T>())), hn::Mul(v, f)); };
  parallel_for((n + kWordBlock - 1) / kWordBlock, 4, [&](int64_t begin, int64_t end) HWY_ATTR {
    HWY_ALIGN T factors[kWordBlock];
    for (int64_t first = begin * kWordBlock; first < std::min(n, end * kWordBlock); first += kWordBlock) {
      const int64_t count = std::min(kWordBlock, n - first);
      keep.factors(static_cast<std::uint64_t>(first), count, factors);
      map_range<T>(0, count, y + first, drop, x + first, static_cast<const T*>(factors));
    }
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(dropout);

template <class T>
void dropout(const T* x, T* y, std::int64_t n, double p, RandomStream random) {
  HEED_DISPATCH(dropout, T)(x, y, n, p, random);
}
template void dropout(const float*, float*, std::int64_t, double, RandomStream);
template void dropout(const double*, double*, std::int64_t, double, RandomStream);

}  // namespace heed::kernels
#endif
