// The bytes of packed blocks (kernels/cpu/block_panels.h), four steps of a row of w side by side.
#if defined(HEED_KERNELS_BYTE_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_BYTE_PANEL_INL_H_
#undef HEED_KERNELS_BYTE_PANEL_INL_H_
#else
#define HEED_KERNELS_BYTE_PANEL_INL_H_
#endif

#include "kernels/cpu/blocks-inl.h"
#include "kernels/cpu/bytes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

/// Four steps of the codes of a vector's rows of w, side by side as bytes: quad Q of a chunk of 32 steps.
template <class C, int Q>
HWY_INLINE Words quad_of(const std::byte* low, const std::byte* high, int64_t column) {
  const WordTag words;
  const auto bytes = [&](unsigned byte) HEED_INLINE_LAMBDA { return hn::Set(words, byte * 0x01010101U); };
  const auto word = [&](const std::byte* plane, int64_t at) HEED_INLINE_LAMBDA {
    return hn::LoadU(words, reinterpret_cast<const std::uint32_t*>(plane + at * kNr * 4) + column);
  };
  constexpr int kQuads = 8 / C::kLow, kShift = Q % kQuads * C::kLow;
  Words q = word(low, Q / kQuads);
  if constexpr (kShift > 0) q = hn::ShiftRight<kShift>(q);
  if constexpr (C::kLow < 8) q = hn::And(q, bytes((1U << C::kLow) - 1));
  if constexpr (C::kHigh > 0) {
    constexpr int kHighQuads = 8 / C::kHigh, kAbove = Q % kHighQuads * C::kHigh - C::kLow;
    Words h = word(high, Q / kHighQuads);
    if constexpr (kAbove > 0) h = hn::ShiftRight<kAbove>(h);
    if constexpr (kAbove < 0) h = hn::ShiftLeft<-kAbove>(h);
    q = hn::Or(q, hn::And(h, bytes(((1U << C::kHigh) - 1) << C::kLow)));
  }
  return q;
}

/// Calls use(Q) for the quads of a chunk, Q an integral constant.
template <class Use, int... Q>
HWY_INLINE void for_quads(const Use& use, std::integer_sequence<int, Q...>) {
  (use(std::integral_constant<int, Q>()), ...);
}
inline constexpr auto kChunkQuads = std::make_integer_sequence<int, 8>();

/// The bytes of codes that name numbers: those numbers and the form's center.
class ByteTable {
 public:
  explicit ByteTable(const BlockForm& form) {
    const auto& numbers = form.code == CodeType::e2m1 ? kE2m1 : kNonLinear;
    for (std::size_t i = 0; i < 16; ++i)
      bytes_[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(numbers[i]) + form.byte_center());
  }
  HWY_INLINE Words operator()(Words codes) const {
    const WordTag words;
#if HWY_TARGET == HWY_SCALAR
    std::uint32_t word = hn::GetLane(codes), made = 0;
    for (int i = 0; i < 32; i += 8) made |= std::uint32_t{bytes_[word >> i & 15U]} << i;
    return hn::Set(words, made);
#else
    const hn::Repartition<std::uint8_t, WordTag> bytes;
    return hn::BitCast(words, hn::TableLookupBytes(hn::LoadDup128(bytes, bytes_), hn::BitCast(bytes, codes)));
#endif
  }

 private:
  alignas(16) std::uint8_t bytes_[16];
};

/// The scales and offsets of a block, so that w = scale * code + offset where the form has offsets.
HWY_INLINE void scales_and_offsets(const BlockForm& form, const std::byte* block, float* scale,
                                   float* offset) {
  for (int64_t at = 0; at < form.bytes(); at += 64) __builtin_prefetch(block + 4096 + at);
  block_scales(form, block, scale, offset);
  if (!form.is_centered() || !form.zero) return;
  for (int64_t j = 0; j < form.numbers / form.group * kNr; j += lanes<float>())
    store<float>(hn::Mul(load(scale + j), load(offset + j)), offset + j);
}

/// Steps of k that there is room for in an unpacked panel.
inline constexpr int64_t kInt8Depth = 1024;

/// A panel over a part of k as bytes.
struct BytePanel {
  alignas(64) std::uint8_t codes[kInt8Depth * kNr];  // [depth / 4][32][4]
  float scale[kInt8Depth / 16 * kNr];                // [groups][32]
  float offset[kInt8Depth / 16 * kNr];               // the same, where the form has offsets
};

/// The bytes are those of `form`, for AMX's tiles less `center`.
template <class C>
HWY_NOINLINE void unpack_bytes(const BlockForm& form, const std::byte* block, int64_t count,
                               [[maybe_unused]] std::int32_t center, BytePanel& to) {
#if HEED_TILES
  const hn::Repartition<std::uint8_t, WordTag> bytes;
  const auto less = hn::Set(bytes, static_cast<std::uint8_t>(center));
#endif
  const int64_t size = form.bytes(), planes = form.scale_bytes(), scales = form.numbers / form.group * kNr;
  const ByteTable table(form);
  auto* codes = reinterpret_cast<std::uint32_t*>(to.codes);
  for (int64_t i = 0; i < count; ++i, block += size) {
    scales_and_offsets(form, block, to.scale + i * scales, to.offset + i * scales);
    const std::byte *low = block + planes, *high = low + form.plane_bytes(C::kLow);
    for (int64_t chunk = 0; chunk * kInt8Chunk < form.numbers; ++chunk) {
      for_quads(
          [&]<int Q>(std::integral_constant<int, Q>) HEED_INLINE_LAMBDA {
            for (int64_t j = 0; j < kNr; j += lanes<float>()) {
              Words q = quad_of<C, Q>(low, high, j);
              if constexpr (C::kReading == Reading::table) q = table(q);
#if HEED_TILES
              q = hn::BitCast(WordTag(), hn::Sub(hn::BitCast(bytes, q), less));
#endif
              hn::StoreU(q, WordTag(), codes + Q * kNr + j);
            }
          },
          kChunkQuads);
      low += kNr * 4 * C::kLow;
      high += kNr * 4 * C::kHigh;
      codes += kNr * kInt8Chunk / 4;
    }
  }
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
