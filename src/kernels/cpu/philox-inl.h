// Philox4x32-10 on vectors of counters: the same words as heed::philox4x32, a vector of blocks at a time.
#if defined(HEED_KERNELS_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_PHILOX_INL_H_
#undef HEED_KERNELS_PHILOX_INL_H_
#else
#define HEED_KERNELS_PHILOX_INL_H_
#endif

#include "heed/random.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

using Words = Tag<std::uint32_t>;

#if HWY_TARGET != HWY_SCALAR
/// Upper and lower halves of the 64-bit products of all lanes.
HWY_INLINE void multiply_wide(Vec<std::uint32_t> a, Vec<std::uint32_t> b, Vec<std::uint32_t>& high,
                              Vec<std::uint32_t>& low) {
  const Words d;
  const hn::Repartition<std::uint64_t, Words> wide;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
}
#endif

/// words[4 i + j] = philox4x32(seed, first_block + i, stream)[j] for i < blocks, a multiple of the vector
/// length.
HWY_INLINE void philox_blocks(RandomStream random, std::uint64_t first_block, int64_t blocks,
                              std::uint32_t* words) {
#if HWY_TARGET == HWY_SCALAR  // has no wide products
  for (int64_t block = 0; block < blocks; ++block) {
    const auto four = philox4x32(random.seed, first_block + static_cast<std::uint64_t>(block), random.stream);
    std::copy(four.begin(), four.end(), words + 4 * block);
  }
#else
  const Words d;
  const auto m0 = hn::Set(d, 0xD2511F53u), m1 = hn::Set(d, 0xCD9E8D57u);
  for (int64_t block = 0; block < blocks; block += lanes<std::uint32_t>()) {
    const std::uint64_t counter = first_block + static_cast<std::uint64_t>(block);
    const auto low = hn::Set(d, static_cast<std::uint32_t>(counter));
    auto c0 = hn::Add(low, hn::Iota(d, 0));
    const auto carry = hn::IfThenElseZero(hn::Lt(c0, low), hn::Set(d, 1));
    auto c1 = hn::Add(hn::Set(d, static_cast<std::uint32_t>(counter >> 32)), carry);
    auto c2 = hn::Set(d, static_cast<std::uint32_t>(random.stream));
    auto c3 = hn::Set(d, static_cast<std::uint32_t>(random.stream >> 32));
    std::uint32_t k0 = static_cast<std::uint32_t>(random.seed),
                  k1 = static_cast<std::uint32_t>(random.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      Vec<std::uint32_t> high0, low0, high1, low1;
      multiply_wide(c0, m0, high0, low0);
      multiply_wide(c2, m1, high1, low1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
      c1 = low1;
      c3 = low0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, d, words + 4 * block);
  }
#endif
}

/// Words at a time that a caller of stream_words handles.
inline constexpr int64_t kWordBlock = 1024;
/// Workspace for them: the first may be the last of a Philox block, the last vector of blocks may be partial.
inline constexpr int64_t kWordBufferSize = kWordBlock + 4 * 64;

/// Fills `buffer` (kWordBufferSize) so that the result p has p[i] = random.word(first + i) for i < n <=
/// kWordBlock.
HWY_INLINE const std::uint32_t* stream_words(RandomStream random, std::uint64_t first, int64_t n,
                                             std::uint32_t* buffer) {
  const int64_t skip = static_cast<int64_t>(first % 4);
  philox_blocks(random, first / 4, padded<std::uint32_t>((skip + n + 3) / 4), buffer);
  return buffer + skip;
}

/// What dropout keeps: those elements whose word, taken as a number in [0, 1), is at least p.
class Keep {
 public:
  Keep(RandomStream random, double p)
      : random_(random),
        threshold_(static_cast<std::uint32_t>(std::ceil(p * 0x1.0p24))),
        scale_(1 / (1 - p)) {}

  /// factors[i] = 1 / (1 - p) if element first + i is kept, else 0.
  template <class T>
  HWY_INLINE void factors(std::uint64_t first, int64_t n, T* factors) const {
    HWY_ALIGN std::uint32_t buffer[kWordBufferSize];
    const T scale = static_cast<T>(scale_);
    for (int64_t start = 0; start < n; start += kWordBlock) {
      const int64_t count = std::min(kWordBlock, n - start);
      const std::uint32_t* words =
          stream_words(random_, first + static_cast<std::uint64_t>(start), count, buffer);
      for (int64_t i = 0; i < count; ++i) factors[start + i] = (words[i] >> 8) >= threshold_ ? scale : T(0);
    }
  }

 private:
  RandomStream random_;
  std::uint32_t threshold_;
  double scale_;
};

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
