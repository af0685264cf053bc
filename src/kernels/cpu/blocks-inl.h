// Numbers of packed blocks (kernels/cpu/block_panels.h): the scales of a block, 16 steps of its codes, a
// panel as f32, and the product of a few rows with a panel.
#if defined(HEED_KERNELS_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_BLOCKS_INL_H_
#undef HEED_KERNELS_BLOCKS_INL_H_
#else
#define HEED_KERNELS_BLOCKS_INL_H_
#endif

#include <utility>

#include "kernels/cpu/block_panels.h"
#include "kernels/cpu/micro_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// Of lambdas that are called once for each step of a chunk.
#define HEED_INLINE_LAMBDA HWY_ATTR __attribute__((always_inline))

using Words = hn::Vec<hn::Repartition<std::uint32_t, Tag<float>>>;
using WordTag = hn::Repartition<std::uint32_t, Tag<float>>;
inline constexpr int kVectors = static_cast<int>(kNr / lanes<float>());  // of the columns of a panel
inline constexpr int64_t kChunk = 16;                                    // steps that are decoded together

/// Signed bytes as f32.
HWY_INLINE Vec<float> from_bytes(const std::byte* p) {
  const hn::Rebind<std::int8_t, Tag<float>> narrow;
  const hn::Rebind<std::int32_t, Tag<float>> wide;
  return hn::ConvertTo(Tag<float>(),
                       hn::PromoteTo(wide, hn::LoadU(narrow, reinterpret_cast<const std::int8_t*>(p))));
}
HWY_INLINE Words words_of_bytes(const std::byte* p) {
  const hn::Rebind<std::uint8_t, Tag<float>> narrow;
  return hn::PromoteTo(WordTag(), hn::LoadU(narrow, reinterpret_cast<const std::uint8_t*>(p)));
}
HWY_INLINE Vec<float> to_float(Words v) {
  const hn::Rebind<std::int32_t, Tag<float>> whole;
  return hn::ConvertTo(Tag<float>(), hn::BitCast(whole, v));
}
HWY_INLINE Vec<float> from_halves(const std::byte* p) { return widened(reinterpret_cast<const float16*>(p)); }

/// 2^(e - 128): half the power of two that a byte of MXFP4 names, with its denormal numbers.
HWY_INLINE Vec<float> half_power(const std::byte* p) {
  const WordTag words;
  const Words e = words_of_bytes(p);
  const Words normal = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(words, 1)));
  const Words small =
      hn::IfThenElse(hn::Eq(e, hn::Zero(words)), hn::Set(words, 0x00200000), hn::Set(words, 0x00400000));
  return hn::BitCast(Tag<float>(), hn::IfThenElse(hn::Lt(e, hn::Set(words, 2)), small, normal));
}

HWY_INLINE Vec<float> scale_of(ScaleType type, const std::byte* scales, int64_t column) {
  switch (type) {
    case ScaleType::f16: return from_halves(scales + 2 * column);
    case ScaleType::bf16: return widened(reinterpret_cast<const bfloat16*>(scales) + column);
    case ScaleType::f32: return load(reinterpret_cast<const float*>(scales) + column);
    case ScaleType::e8m0: return half_power(scales + column);
  }
  HEED_ASSERT(false, "a type of scales");
}

/// The scales and offsets of all groups of a block, each [groups][32].
HWY_INLINE void block_scales(const BlockForm& form, const std::byte* block, float* scale, float* offset) {
  constexpr int64_t N = lanes<float>();
  const int64_t groups = form.numbers / form.group;
  const std::byte* minimum = block + kNr * form.scale_size();
  const std::byte* sub = minimum + (form.minimum ? 2 * kNr : 0);
  const std::byte* sub_min = sub + kNr * form.sub;
  const std::byte* zero = sub_min + kNr * form.sub_min;
  for (int64_t j = 0; j < kNr; j += N) {
    const Vec<float> d = scale_of(form.scale, block, j);
    const Vec<float> low = form.minimum ? from_halves(minimum + 2 * j) : hn::Zero(Tag<float>());
    Vec<float> center = broadcast(-form.center);
    if (form.zero) center = hn::Sub(center, to_float(words_of_bytes(zero + j)));
    for (int64_t g = 0; g < groups; ++g) {
      const std::byte* at = sub + g * kNr + j;
      Vec<float> s = d, o = low;
      if (form.sub_nibbles) {
        const Words both = words_of_bytes(at);
        s = hn::Mul(d, to_float(hn::And(both, hn::Set(WordTag(), 15))));
        o = hn::Neg(hn::Mul(low, to_float(hn::ShiftRight<4>(both))));
      } else {
        if (form.sub > 0) s = hn::Mul(d, from_bytes(at));
        if (form.sub_min > 0) o = hn::Neg(hn::Mul(low, from_bytes(sub_min + g * kNr + j)));
        if (!form.minimum) o = form.is_centered() ? center : hn::Mul(center, s);
      }
      store<float>(s, scale + g * kNr + j);
      store<float>(o, offset + g * kNr + j);
    }
  }
}

/// Values of codes by a table of 16.
class Table {
 public:
  explicit Table(CodeType code)
      : values_(code == CodeType::e2m1  ? kE2m1.data()
                : code == CodeType::nf4 ? kNf4.data()
                                        : kNonLinear.data()) {}
  HWY_INLINE Vec<float> operator()(Words code) const {
    const Tag<float> f;
    const hn::Rebind<std::int32_t, Tag<float>> whole;
    const auto index = hn::BitCast(whole, code);
#if HWY_TARGET <= HWY_AVX3
    return hn::TableLookupLanes(load(values_), hn::IndicesFromVec(f, index));
#elif HWY_TARGET == HWY_AVX2
    const auto place = hn::IndicesFromVec(f, hn::And(index, hn::Set(whole, 7)));
    const auto upper = hn::RebindMask(f, hn::Gt(index, hn::Set(whole, 7)));
    return hn::IfThenElse(upper, hn::TableLookupLanes(load(values_ + 8), place),
                          hn::TableLookupLanes(load(values_), place));
#else
    return hn::GatherIndex(f, values_, index);
#endif
  }

 private:
  const float* values_;
};

/// The numbers of OCP's FP8 with 4 bits of exponent, without its two NaN: sign, exponent and fraction move to
/// their places in an f32, whose exponent counts from 120 less.
HWY_INLINE Vec<float> from_e4m3(Words code) {
  const WordTag words;
  const Words sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(words, 0x80)));
  const Words rest = hn::ShiftLeft<20>(hn::And(code, hn::Set(words, 0x7f)));
  return hn::Mul(hn::BitCast(Tag<float>(), hn::Or(sign, rest)), broadcast(0x1p120F));
}

/// How codes are read, as types, so that shifts are constants.
enum class Reading { integer, centered, table, e4m3 };
template <int LowBits, int HighBits, Reading How>
struct Codes {
  static constexpr int kLow = LowBits, kHigh = HighBits;
  static constexpr Reading kReading = How;
};

template <int Bits>
constexpr int shift_of(int step) {
  return step % 4 * 8 + step / 4 * Bits;
}

/// The code of step S of a chunk that is the first (0) or second (1) half of 32 steps. `low` and `high` are
/// the planes at the chunk's first step.
template <class C, int Half, int S>
HWY_INLINE Words code(const std::byte* low, const std::byte* high, int64_t column) {
  const WordTag words;
  constexpr int kSteps = 32 / C::kLow;
  constexpr int64_t kWord = kNr * 4;
  const auto word = [&](const std::byte* plane, int64_t at) HEED_INLINE_LAMBDA {
    return hn::LoadU(words, reinterpret_cast<const std::uint32_t*>(plane + at * kWord) + column);
  };
  constexpr int kShift = shift_of<C::kLow>(S % kSteps);
  Words q = word(low, S / kSteps);
  if constexpr (kShift > 0) q = hn::ShiftRight<kShift>(q);
  if constexpr (kShift + C::kLow < 32) q = hn::And(q, hn::Set(words, (1U << C::kLow) - 1));
  if constexpr (C::kHigh > 0) {
    constexpr int kAbove = shift_of<C::kHigh>(C::kHigh == 1 ? 16 * Half + S : S) - C::kLow;
    Words h = word(high, 0);
    if constexpr (kAbove > 0) h = hn::ShiftRight<kAbove>(h);
    if constexpr (kAbove < 0) h = hn::ShiftLeft<-kAbove>(h);
    q = hn::Or(q, hn::And(h, hn::Set(words, ((1U << C::kHigh) - 1) << C::kLow)));
  }
  return q;
}

/// Calls use(step, vector, numbers) for 16 steps of all columns.
template <class C, int Half, class Use, int... S>
HWY_INLINE void decode_chunk(const std::byte* low, const std::byte* high, const Table& table,
                             const Vec<float>* scale, const Vec<float>* offset, const Use& use,
                             std::integer_sequence<int, S...>) {
  const auto step = [&]<int I>(std::integral_constant<int, I>) HEED_INLINE_LAMBDA {
    for (int j = 0; j < kVectors; ++j) {
      const Words q = code<C, Half, I>(low, high, j * lanes<float>());
      if constexpr (C::kReading == Reading::table) {
        use(I, j, hn::Mul(scale[j], table(q)));
      } else if constexpr (C::kReading == Reading::centered) {
        use(I, j, hn::Mul(scale[j], hn::Add(to_float(q), offset[j])));
      } else if constexpr (C::kReading == Reading::e4m3) {
        use(I, j, hn::Mul(scale[j], from_e4m3(q)));
      } else {
        use(I, j, hn::MulAdd(scale[j], to_float(q), offset[j]));
      }
    }
  };
  (step(std::integral_constant<int, S>()), ...);
}

/// Calls use(step, vector, numbers) for all steps of `count` blocks of a panel, in order.
template <class C, class Use>
HWY_INLINE void decode_blocks(const BlockForm& form, const std::byte* block, int64_t count, const Use& use) {
  constexpr auto kSteps = std::make_integer_sequence<int, kChunk>();
  const Table table(form.code);
  const int64_t size = form.bytes(), planes = form.scale_bytes(), upper = planes + form.plane_bytes(C::kLow);
  constexpr int64_t kLowChunk = kNr * kChunk * C::kLow / 8;
  float scales[kMostGroups * kNr], offsets[kMostGroups * kNr];
  for (int64_t i = 0; i < count; ++i, block += size) {
    for (int64_t at = 0; at < size; at += 64) __builtin_prefetch(block + 4096 + at);
    block_scales(form, block, scales, offsets);
    const std::byte* low = block + planes;
    const std::byte* high = block + upper;
    for (int64_t chunk = 0; chunk * kChunk < form.numbers; ++chunk, low += kLowChunk) {
      const int64_t group = chunk * kChunk / form.group;
      Vec<float> scale[kVectors], offset[kVectors];
      for (int j = 0; j < kVectors; ++j) {
        scale[j] = load(scales + group * kNr + j * lanes<float>());
        offset[j] = load(offsets + group * kNr + j * lanes<float>());
      }
      const auto shifted = [&](int s, int j, Vec<float> w)
                               HEED_INLINE_LAMBDA { use(i * form.numbers + chunk * kChunk + s, j, w); };
      if (C::kHigh == 1 && chunk % 2 == 1) {
        decode_chunk<C, 1>(low, high, table, scale, offset, shifted, kSteps);
      } else {
        decode_chunk<C, 0>(low, high, table, scale, offset, shifted, kSteps);
      }
      if (C::kHigh == 2 || (C::kHigh == 1 && chunk % 2 == 1)) high += kNr * 4;
    }
  }
}

/// Calls fn with the Codes of a form.
template <class Fn>
HWY_INLINE void with_codes(const BlockForm& form, const Fn& fn) {
  if (form.code == CodeType::e4m3) return fn(Codes<8, 0, Reading::e4m3>());
  if (form.code != CodeType::integer) return fn(Codes<4, 0, Reading::table>());
  if (form.is_centered() && form.low == 8) return fn(Codes<8, 0, Reading::centered>());
  if (form.is_centered()) return fn(Codes<4, 0, Reading::centered>());
  switch (form.low * 10 + form.high) {
    case 80: return fn(Codes<8, 0, Reading::integer>());
    case 40: return fn(Codes<4, 0, Reading::integer>());
    case 41: return fn(Codes<4, 1, Reading::integer>());
    case 42: return fn(Codes<4, 2, Reading::integer>());
    case 20: return fn(Codes<2, 0, Reading::integer>());
    case 21: return fn(Codes<2, 1, Reading::integer>());
    default: HEED_ASSERT(false, "codes of other bits");
  }
}

/// Steps [from, from + depth) of a panel as numbers, [depth][32].
template <class C>
HWY_NOINLINE void unpack_codes(const BlockForm& form, const std::byte* block, int64_t count, float* to) {
  decode_blocks<C>(form, block, count, [to](int64_t step, int j, Vec<float> w) HEED_INLINE_LAMBDA {
    store<float>(w, to + step * kNr + j * lanes<float>());
  });
}
HWY_INLINE void unpack_steps(const PackedMatrix& w, int64_t panel, int64_t from, int64_t depth, float* to) {
  const BlockForm& form = *w.form();
  const std::byte* block = w.panel(panel) + from / form.numbers * form.bytes();
  with_codes(form, [&]<class C>(C) HWY_ATTR { unpack_codes<C>(form, block, depth / form.numbers, to); });
}

/// How many rows are multiplied with numbers that are decoded in registers: their sums fill these. More are
/// worth storing a panel's numbers.
inline constexpr int kRowsAtOnce = lanes<float>() >= 16 ? 12 : 2;

/// sums[R][32] += R rows times a panel, step by step; x: [k / 16][R][16].
template <class C, int R>
HWY_NOINLINE void rows_times_codes(const BlockForm& form, const std::byte* block, int64_t k, const float* x,
                                   float* sums) {
  Vec<float> sum[R][kVectors];
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < kVectors; ++j) sum[r][j] = load(sums + r * kNr + j * lanes<float>());
  }
  const float* steps = x;  // of the chunk
  decode_blocks<C>(form, block, k / form.numbers, [&](int64_t step, int j, Vec<float> w) HEED_INLINE_LAMBDA {
    const int64_t at = step % kChunk;
    if (at == 0 && j == 0) steps = x + step * R;
    HWY_UNROLL(16)
    for (int r = 0; r < R; ++r) sum[r][j] = hn::MulAdd(broadcast(steps[r * kChunk + at]), w, sum[r][j]);
  });
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < kVectors; ++j) store<float>(sum[r][j], sums + r * kNr + j * lanes<float>());
  }
}
template <class C, int... R>
HWY_INLINE void rows_times_codes_of(int64_t rows, const BlockForm& form, const std::byte* block, int64_t k,
                                    const float* x, float* sums, std::integer_sequence<int, R...>) {
  static constexpr void (*functions[])(const BlockForm&, const std::byte*, int64_t, const float*,
                                       float*) = {rows_times_codes<C, R + 1>...};
  functions[rows - 1](form, block, k, x, sums);
}
/// The same for up to kRowsAtOnce rows.
HWY_INLINE void rows_times_panel(const PackedMatrix& w, int64_t panel, int64_t rows, int64_t k,
                                 const float* x, float* sums) {
  const BlockForm& form = *w.form();
  with_codes(form, [&]<class C>(C) HWY_ATTR {
    rows_times_codes_of<C>(rows, form, w.panel(panel), k, x, sums,
                           std::make_integer_sequence<int, kRowsAtOnce>());
  });
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
