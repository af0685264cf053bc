// Products of bytes of w with int8 by maddubs where 16 bits have no room for the sum of two: 255 * 127 * 2.
// They do have it if the two products have opposite signs. So where the numbers of a pair of x have the same
// sign, the second is negated, and multiplied with what its byte of w lacks of 255:
//
//   w0 x0 + w1 x1 = w0 x0 + (255 - w1) (-x1) + 255 x1
//
// The last term depends on x alone. Four steps of a panel are in memory as they are, with the second, the
// fourth, and both of them replaced; four bytes behind a quad of x say
// where the version that it takes begins. This takes three
// instructions (a product, the sum of two, the sum) for 32 bytes, and no branch.
#if defined(HEED_KERNELS_OPPOSED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_OPPOSED_INL_H_
#undef HEED_KERNELS_OPPOSED_INL_H_
#else
#define HEED_KERNELS_OPPOSED_INL_H_
#endif

#include "kernels/cpu/bytes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

inline constexpr int64_t kVersions = 4;
inline constexpr int64_t kQuadSize = 8;  // of x, in bytes
inline constexpr int64_t kOpposedDepth =
    128;  // steps of k whose versions are made at once, if blocks are not longer

#if HEED_X86_BYTES

/// The versions of a part of a panel.
struct Versions {
  alignas(64) std::uint8_t codes[kMostNumbers * kNr * kVersions];  // [depth / 4][version][32][4]
};

void make_versions(int64_t depth, const std::uint8_t* codes, std::uint8_t* to) {
  constexpr int64_t kBytes = lanes<float>() * 4;
  for (int64_t q = 0; q < depth / 4; ++q, to += kVersions * kNr * 4) {
    for (int64_t at = 0; at < kNr * 4; at += kBytes, codes += kBytes) {
      const Bytes w = load_bytes(codes);
      store_bytes(to + at, w);
      store_bytes(to + at + kNr * 4, flip_bits(w, 0x0000ff00));
      store_bytes(to + at + kNr * 8, flip_bits(w, static_cast<std::int32_t>(0xff000000)));
      store_bytes(to + at + kNr * 12, flip_bits(w, static_cast<std::int32_t>(0xff00ff00)));
    }
  }
}

/// Writes the quads of `count` rounded numbers, each 16 of them to place(i), and returns 255 times the sum of
/// those that are negated.
template <class Place>
HWY_INLINE std::int32_t oppose(int64_t count, const std::int8_t* x, const Place& place) {
  const __m128i second = _mm_set1_epi16(static_cast<std::int16_t>(0xff00));
  __m128i sums = _mm_setzero_si128();
  for (int64_t i = 0; i < count; i += 16) {
    const __m128i v = _mm_load_si128(reinterpret_cast<const __m128i*>(x + i));
    const __m128i differ = _mm_srai_epi16(_mm_xor_si128(v, _mm_slli_epi16(v, 8)), 15);
    const __m128i chosen = _mm_andnot_si128(differ, second);
    const __m128i codes = _mm_sub_epi8(_mm_xor_si128(v, chosen), chosen);
    const __m128i versions = _mm_or_si128(_mm_and_si128(_mm_srli_epi32(chosen, 8), _mm_set1_epi32(kNr * 4)),
                                          _mm_and_si128(_mm_srli_epi32(chosen, 16), _mm_set1_epi32(kNr * 8)));
    auto* to = reinterpret_cast<__m128i*>(place(i));
    _mm_storeu_si128(to, _mm_unpacklo_epi32(codes, versions));
    _mm_storeu_si128(to + 1, _mm_unpackhi_epi32(codes, versions));
    const __m128i negated = _mm_srai_epi16(_mm_and_si128(v, chosen), 8);
    sums = _mm_add_epi32(sums, _mm_madd_epi16(negated, _mm_set1_epi16(255)));
  }
  sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0xb1)));
}

#else

template <class Place>
std::int32_t oppose(int64_t, const std::int8_t*, const Place&) {
  return 0;
}

#endif

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
