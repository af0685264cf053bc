// Dropout: the mask is drawn block by block into the cache and used at once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dropout.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/philox-inl.h"
#include "kernels/dropout.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Calls block(first, count) on consecutive ranges of at most kWordBlock elements, in parallel.
template <class Block>
HWY_INLINE void for_each_block(int64_t n, Block block) {
  parallel_for((n + kWordBlock - 1) / kWordBlock, 4, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t b = begin; b < end; ++b) block(b * kWordBlock, std::min(kWordBlock, n - b * kWordBlock));
  });
}

template <class T>
void dropout(const T* x, T* y, int64_t n, double p, RandomStream random) {
  const Keep keep(random, p);
  for_each_block(n, [&](int64_t first, int64_t count) HWY_ATTR {
    HWY_ALIGN T factors[kWordBlock];
    keep.factors(static_cast<std::uint64_t>(first), count, factors);
    // A dropped infinity is 0, not NaN.
    const auto drop = [](auto v, auto f) HWY_ATTR {
      return hn::IfThenElseZero(hn::Ne(f, hn::Zero(Tag<T>())), hn::Mul(v, f));
    };
    map_range<T>(0, count, y + first, drop, x + first, static_cast<const T*>(factors));
  });
}

template <class T>
void dropout_add(const T* x, const T* residual, T* y, int64_t n, double p, RandomStream random) {
  const Keep keep(random, p);
  for_each_block(n, [&](int64_t first, int64_t count) HWY_ATTR {
    HWY_ALIGN T factors[kWordBlock];
    keep.factors(static_cast<std::uint64_t>(first), count, factors);
    const auto drop = [](auto v, auto f, auto r) HWY_ATTR {
      return hn::Add(r, hn::IfThenElseZero(hn::Ne(f, hn::Zero(Tag<T>())), hn::Mul(v, f)));
    };
    map_range<T>(0, count, y + first, drop, x + first, static_cast<const T*>(factors), residual + first);
  });
}

template <class T>
void uniform(T* y, int64_t n, double low, double high, RandomStream random) {
  const T offset = static_cast<T>(low), width = static_cast<T>(high - low);
  for_each_block(n, [&](int64_t first, int64_t count) HWY_ATTR {
    HWY_ALIGN std::uint32_t buffer[kWordRoom];
    const std::uint32_t* words = stream_words(random, static_cast<std::uint64_t>(first), count, buffer);
    for (int64_t i = 0; i < count; ++i) {
      y[first + i] = offset + width * static_cast<T>(uniform_from_bits(words[i]));
    }
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(dropout);
HEED_EXPORT(dropout_add);
HEED_EXPORT(uniform);

template <class T>
void dropout(const T* x, T* y, std::int64_t n, double p, RandomStream random) {
  HEED_DISPATCH(dropout, T)(x, y, n, p, random);
}
template <class T>
void dropout_add(const T* x, const T* residual, T* y, std::int64_t n, double p, RandomStream random) {
  HEED_DISPATCH(dropout_add, T)(x, residual, y, n, p, random);
}
template <class T>
void uniform(T* y, std::int64_t n, double low, double high, RandomStream random) {
  HEED_DISPATCH(uniform, T)(y, n, low, high, random);
}

#define HEED_INSTANTIATE(T)                                                              \
  template void dropout(const T*, T*, std::int64_t, double, RandomStream);               \
  template void dropout_add(const T*, const T*, T*, std::int64_t, double, RandomStream); \
  template void uniform(T*, std::int64_t, double, double, RandomStream);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)

}  // namespace heed::kernels
#endif
