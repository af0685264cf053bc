// Rows of x rounded to int8, as products with matrices in blocks take them (kernels/cpu/int8_gemm.cpp): codes
// of a scale for each group, and what the group's sums need besides.
#if defined(HEED_KERNELS_ROUNDED_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ROUNDED_ROWS_INL_H_
#undef HEED_KERNELS_ROUNDED_ROWS_INL_H_
#else
#define HEED_KERNELS_ROUNDED_ROWS_INL_H_
#endif

#include "kernels/cpu/gemm_paths.h"
#include "kernels/cpu/opposed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

using detail::GroupOfRow;
using detail::SharedGemm;

/// The nearest whole number, of |v| < 2^31.
HWY_INLINE Ints nearest(Vec<float> v) {
#if HEED_X86_BYTES && HWY_TARGET <= HWY_AVX3
  return Ints{_mm512_cvtps_epi32(v.raw)};
#elif HEED_X86_BYTES
  return Ints{_mm256_cvtps_epi32(v.raw)};
#else
  return hn::NearestInt(v);
#endif
}

/// The largest magnitude of x[0, count); NaN or infinity where one is. Magnitudes are in the order of their
/// bits, of which a maximum takes a cycle.
HWY_INLINE float largest_magnitude(const float* x, int64_t count) {
  constexpr int64_t N = lanes<float>();
  const auto magnitude = [x](int64_t i) HWY_ATTR {
    return hn::And(hn::BitCast(IntTag(), load(x + i)), hn::Set(IntTag(), 0x7fffffff));
  };
  Ints most = hn::Zero(IntTag());
  for (int64_t i = 0; i < count; i += N) most = hn::Max(most, magnitude(i));
  return hn::GetLane(hn::BitCast(Tag<float>(), hn::MaxOfLanes(IntTag(), most)));
}

/// x[0, count) * inverse as codes, count a multiple of 16; returns their sum. place(i) is where each 16 go.
template <class Place>
HWY_INLINE std::int32_t round_numbers(const float* x, int64_t count, float inverse, const Place& place) {
  constexpr int64_t N = lanes<float>();
  const hn::Rebind<std::int8_t, Tag<float>> narrow;
  const Vec<float> factor = broadcast(inverse);
  Ints sums = hn::Zero(IntTag());
  for (int64_t i = 0; i < count; i += 16) {
    std::int8_t* to = place(i);
    for (int64_t j = 0; j < 16; j += N) {
      const Ints code = nearest(hn::Mul(load(x + i + j), factor));
      hn::StoreU(hn::DemoteTo(narrow, code), narrow, to + j);
      sums = hn::Add(sums, code);
    }
  }
  return hn::GetLane(hn::SumOfLanes(IntTag(), sums));
}

/// Rounds numbers [from, from + count) of row `row`, which is one of `tile` and which x begins with, to the
/// tile's chunks and groups, which lie as many rows apart as it has. p.factor is what the bytes of w are
/// below the codes, which the sums are for.
void round_row(const SharedGemm& p, int64_t tile, int64_t row, int64_t from, int64_t count, const float* x) {
  const int64_t steps = p.steps, within = p.chunk - 1, together = p.together(), size = p.code_size();
  const int64_t first = p.first_row(tile), rows = p.first_row(tile + 1) - first, k = p.args.k;
  std::int8_t* codes = p.codes + (first * k + from * rows + (row - first) * p.chunk) * size;
  GroupOfRow* groups = p.groups + (first * k + from * rows) / steps + row - first;
  const auto code_at = [&](int64_t i) { return codes + ((i & ~within) * rows + (i & within)) * size; };
  for (int64_t g = 0; g < count; g += together, x += together, codes += rows * together * size) {
    const float largest = largest_magnitude(x, together);
    if (!std::isfinite(largest)) {
      constexpr float kBad = std::numeric_limits<float>::quiet_NaN();
      for (int64_t i = 0; i < together; i += kInt8Chunk)
        std::fill_n(code_at(i), kInt8Chunk * size, std::int8_t{0});
      for (int64_t begin = 0; begin < together; begin += steps, groups += rows) *groups = {kBad, kBad, 0};
      continue;
    }
    const bool vanishes = largest < 1e-35F;  // else the reciprocal might not be finite
    const float inverse = vanishes ? 0.0F : 127.0F / largest;
    const float scale = vanishes ? 0.0F : largest / 127.0F;
    for (int64_t begin = 0; begin < together; begin += steps, groups += rows) {
      const auto place = [&](int64_t i) { return code_at(begin + i); };
      HWY_ALIGN std::int8_t plain[kMostSteps];
      const std::int32_t sum =
          p.opposed ? round_numbers(x + begin, steps, inverse, [&](int64_t i) { return plain + i; })
                    : round_numbers(x + begin, steps, inverse, place);
      *groups = {scale, static_cast<float>(sum) * scale, p.factor * sum};
      if (p.opposed) groups->rest += oppose(steps, plain, place);
    }
  }
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
