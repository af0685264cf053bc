// Sums of products of unsigned bytes of w with signed ones of x, four of a row side by side: by one
// instruction where the processor has it (VNNI's vpdpbusd; usdot and sdot of ARM; for many rows AMX's
// tdpbssd and tdpbsud), else by maddubs with sums of 16 bits, or by long products of ARM.
#if defined(HEED_KERNELS_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_BYTES_INL_H_
#undef HEED_KERNELS_BYTES_INL_H_
#else
#define HEED_KERNELS_BYTES_INL_H_
#endif

#include "kernels/cpu/amx.h"
#include "kernels/cpu/block_panels.h"
#include "kernels/cpu/simd-inl.h"

/// Whether this target has instructions for them.
#undef HEED_BYTES
#undef HEED_X86_BYTES
#define HEED_X86_BYTES (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)
#define HEED_BYTES (HEED_X86_BYTES || HWY_TARGET == HWY_NEON)
/// Whether the processor may have AMX as well.
#undef HEED_TILES
#define HEED_TILES (HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX3)

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

using IntTag = hn::Rebind<std::int32_t, Tag<float>>;
using Ints = hn::Vec<IntTag>;

/// Two ones of 16 bits.
inline constexpr std::int32_t kOnes = 0x00010001;

/// How products are added, besides the room of the codes for maddubs: in fours of unsigned by signed bytes,
/// in fours of signed bytes, or as long products of signed bytes. Codes of w become signed by 128 less.
inline constexpr int kFours = 0, kSignedFours = -1, kLong = -2;
constexpr bool is_signed(int room) { return room == 1 || room < 0; }

#if HEED_BYTES

HWY_INLINE std::int32_t word_at(const std::int8_t* p) {
  std::int32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

#if HWY_TARGET == HWY_NEON
using Bytes = int32x4_t;
HWY_INLINE Bytes load_bytes(const void* p) {
  return vreinterpretq_s32_u8(vld1q_u8(static_cast<const std::uint8_t*>(p)));
}
HWY_INLINE void store_bytes(void* p, Bytes v) { vst1q_s32(static_cast<std::int32_t*>(p), v); }
HWY_INLINE Bytes words(std::int32_t v) { return vdupq_n_s32(v); }
HWY_INLINE Bytes add_words(Bytes a, Bytes b) { return vaddq_s32(a, b); }
template <int Room>
HWY_INLINE Bytes prepared(Bytes w) {
  return is_signed(Room) ? veorq_s32(w, vdupq_n_s32(static_cast<std::int32_t>(0x80808080))) : w;
}
/// sum + the products of four bytes of w and x. The target of Highway has neither instruction, so the
/// assembler is told of them; whether the processor has them is asked for at run time.
template <int Room>
HWY_INLINE Bytes add_products(Bytes sum, Bytes w, Bytes x) {
  if constexpr (Room == kFours) {
    asm(".arch armv8.6-a+crypto\n\tusdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(x));
    return sum;
  } else if constexpr (Room == kSignedFours) {
    asm(".arch armv8.6-a+crypto\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(x));
    return sum;
  } else {
    const int8x16_t a = vreinterpretq_s8_s32(w), b = vreinterpretq_s8_s32(x);
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
  }
}
#elif HWY_TARGET <= HWY_AVX3
using Bytes = __m512i;
HWY_INLINE Bytes load_bytes(const void* p) { return _mm512_loadu_si512(p); }
HWY_INLINE void store_bytes(void* p, Bytes v) { _mm512_storeu_si512(p, v); }
HWY_INLINE Bytes words(std::int32_t v) { return _mm512_set1_epi32(v); }
HWY_INLINE Bytes pairs(Bytes w, Bytes x) { return _mm512_maddubs_epi16(w, x); }
/// sum + pairs(w, x). The compiler would move the products before the sums, which then leave the registers.
HWY_INLINE Bytes add_pairs(Bytes sum, Bytes w, Bytes x) {
  Bytes products;
  asm("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0" : "+v"(sum), "=&v"(products) : "v"(w), "v"(x));
  return sum;
}
HWY_INLINE Bytes add_words(Bytes a, Bytes b) { return _mm512_add_epi32(a, b); }
HWY_INLINE Bytes fours(Bytes pairs, Bytes ones) { return _mm512_madd_epi16(pairs, ones); }
/// sum + fours(pairs(w, x)), with ones of 16 bits. The compiler would add some products first, and need more
/// registers.
HWY_INLINE Bytes add_fours(Bytes sum, Bytes w, Bytes x, Bytes ones) {
  Bytes products;
  asm("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
      : "+v"(sum), "=&v"(products)
      : "v"(w), "v"(x), "v"(ones));
  return sum;
}
HWY_INLINE Bytes magnitude(Bytes w) { return _mm512_abs_epi8(w); }
HWY_INLINE Bytes flip_bits(Bytes w, std::int32_t bits) { return _mm512_xor_si512(w, words(bits)); }
HWY_INLINE Bytes with_sign(Bytes x, Bytes w) {
  return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
}
/// sum + the products of four unsigned bytes of w and four signed ones of x: the instruction of AVX512-VNNI,
/// which this target of Highway does not name.
HWY_INLINE Bytes add_products(Bytes sum, Bytes w, Bytes x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
  return sum;
}
#else
using Bytes = __m256i;
HWY_INLINE Bytes load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
HWY_INLINE void store_bytes(void* p, Bytes v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
HWY_INLINE Bytes words(std::int32_t v) { return _mm256_set1_epi32(v); }
HWY_INLINE Bytes pairs(Bytes w, Bytes x) { return _mm256_maddubs_epi16(w, x); }
HWY_INLINE Bytes add_pairs(Bytes sum, Bytes w, Bytes x) {
  Bytes products;
  asm("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0" : "+x"(sum), "=&x"(products) : "x"(w), "x"(x));
  return sum;
}
HWY_INLINE Bytes add_words(Bytes a, Bytes b) { return _mm256_add_epi32(a, b); }
HWY_INLINE Bytes fours(Bytes pairs, Bytes ones) { return _mm256_madd_epi16(pairs, ones); }
/// sum + fours(pairs(w, x)), with ones of 16 bits.
HWY_INLINE Bytes add_fours(Bytes sum, Bytes w, Bytes x, Bytes ones) {
  Bytes products;
  asm("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
      : "+x"(sum), "=&x"(products)
      : "x"(w), "x"(x), "x"(ones));
  return sum;
}
HWY_INLINE Bytes magnitude(Bytes w) { return _mm256_abs_epi8(w); }
HWY_INLINE Bytes flip_bits(Bytes w, std::int32_t bits) { return _mm256_xor_si256(w, words(bits)); }
HWY_INLINE Bytes with_sign(Bytes x, Bytes w) { return _mm256_sign_epi8(x, w); }
/// That of AVX-VNNI.
HWY_INLINE Bytes add_products(Bytes sum, Bytes w, Bytes x) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(w), "x"(x));
  return sum;
}
#endif

#if HEED_X86_BYTES
/// Bytes without sign as signed ones, 128 less.
HWY_INLINE Bytes flip(Bytes w) { return flip_bits(w, static_cast<std::int32_t>(0x80808080)); }
template <int Room>
HWY_INLINE Bytes prepared(Bytes w) {
  return w;
}
template <int Room>
HWY_INLINE Bytes add_products(Bytes sum, Bytes w, Bytes x) {
  return add_products(sum, w, x);
}
#endif

/// sum[r][j] += the products of a chunk of row r, which lie kInt8Chunk apart, with two vectors of columns;
/// returns where the next chunk of w begins.
template <int Rows, int Room>
HWY_INLINE const std::uint8_t* add_chunk(int64_t quads, const std::uint8_t* w, const std::int8_t* x,
                                         Bytes (&sum)[Rows][2]) {
  constexpr int64_t kBytes = lanes<float>() * 4;
  do {
    const Bytes a = prepared<Room>(load_bytes(w)), b = prepared<Room>(load_bytes(w + kBytes));
    HWY_UNROLL(16)
    for (int r = 0; r < Rows; ++r) {
      const Bytes v = words(word_at(x + r * kInt8Chunk));
      sum[r][0] = add_products<Room>(sum[r][0], a, v);
      sum[r][1] = add_products<Room>(sum[r][1], b, v);
    }
    w += kNr * 4;
    x += 4;
  } while (--quads > 0);
  return w;
}

/// The sums of a chunk for two vectors of columns, which those of the chunks before join.
template <int Rows, int Room>
HWY_INLINE void sum_fours(int64_t quads, const std::uint8_t* w, const std::int8_t* x, bool joins,
                          std::int32_t* sums) {
  Bytes sum[Rows][2];
  HWY_UNROLL(16)
  for (int r = 0; r < Rows; ++r) {
    const std::int32_t* before = sums + r * kNr;
    sum[r][0] = joins ? load_bytes(before) : words(0);
    sum[r][1] = joins ? load_bytes(before + lanes<float>()) : words(0);
  }
  add_chunk<Rows, Room>(quads, w, x, sum);
  HWY_UNROLL(16)
  for (int r = 0; r < Rows; ++r) {
    store_bytes(sums + r * kNr, sum[r][0]);
    store_bytes(sums + r * kNr + lanes<float>(), sum[r][1]);
  }
}

#if HEED_X86_BYTES
/// The same by sums of two products in 16 bits. Room: that of room_of().
template <int Rows, int Room>
HWY_INLINE void sum_pairs(int64_t quads, const std::uint8_t* w, const std::int8_t* x, bool joins,
                          std::int32_t* sums) {
  constexpr int64_t kBytes = lanes<float>() * 4;
  const Bytes ones = words(kOnes);
  for (int64_t from = 0; from < quads; from += Room) {
    Bytes part[Rows][2];
    HWY_UNROLL(16)
    for (int r = 0; r < Rows; ++r) part[r][0] = part[r][1] = words(0);
    const int64_t end = std::min<int64_t>(from + Room, quads);
    for (int64_t q = from; q < end; ++q, w += kNr * 4, x += 4) {
      const Bytes a = load_bytes(w), b = load_bytes(w + kBytes);
      HWY_UNROLL(16)
      for (int r = 0; r < Rows; ++r) {
        const Bytes v = words(word_at(x + r * kInt8Chunk));
        part[r][0] = add_pairs(part[r][0], a, v);
        part[r][1] = add_pairs(part[r][1], b, v);
      }
    }
    HWY_UNROLL(16)
    for (int r = 0; r < Rows; ++r) {
      for (int j = 0; j < 2; ++j) {
        std::int32_t* to = sums + r * kNr + j * lanes<float>();
        const Bytes sum = fours(part[r][j], ones);
        store_bytes(to, from == 0 && !joins ? sum : add_words(load_bytes(to), sum));
      }
    }
  }
}

/// The same where 16 bits have no room for more than two products: codes of 8 bits, which are signed first.
template <int Rows>
HWY_INLINE void sum_signed(int64_t quads, const std::uint8_t* w, const std::int8_t* x, bool joins,
                           std::int32_t* sums) {
  constexpr int64_t kBytes = lanes<float>() * 4;
  const Bytes ones = words(kOnes);
  for (int64_t column = 0; column < 2 * lanes<float>(); column += lanes<float>()) {
    Bytes sum[Rows];
    HWY_UNROLL(16)
    for (int r = 0; r < Rows; ++r) sum[r] = joins ? load_bytes(sums + r * kNr + column) : words(0);
    const std::uint8_t* from = w + (column == 0 ? 0 : kBytes);
    for (int64_t q = 0; q < quads; ++q, from += kNr * 4) {
      const Bytes a = flip(load_bytes(from)), size = magnitude(a);
      HWY_UNROLL(16)
      for (int r = 0; r < Rows; ++r) {
        const Bytes v = with_sign(words(word_at(x + r * kInt8Chunk + q * 4)), a);
        sum[r] = add_words(sum[r], fours(pairs(size, v), ones));
      }
    }
    HWY_UNROLL(16)
    for (int r = 0; r < Rows; ++r) store_bytes(sums + r * kNr + column, sum[r]);
  }
}
#endif

#if HEED_TILES
/// The registers of add_tiles(): sums of 16 columns and of 16 more, `steps` of x, and the same of w.
inline detail::TileShapes shapes_of_bytes(int64_t rows, int64_t steps) {
  detail::TileShapes shapes;
  for (const std::size_t sums : {0, 1}) shapes.set(sums, rows, detail::kTileBytes);
  shapes.set(2, rows, steps);
  for (const std::size_t w : {3, 4}) shapes.set(w, steps / 4, detail::kTileBytes);
  return shapes;
}

/// Adds the products of a chunk to the sums in the registers.
template <bool Signed>
HWY_INLINE void add_tiles(const std::uint8_t* w, const std::int8_t* x, int64_t distance) {
  detail::load_tile<2>(x, distance);
  detail::load_tile<3>(w, kNr * 4);
  detail::load_tile<4>(w + detail::kTileBytes, kNr * 4);
  detail::add_byte_products<0, 2, 3, Signed>();
  detail::add_byte_products<1, 2, 4, Signed>();
}
#endif

/// The sum of a group of one row, quad after quad.
template <int Room>
class GroupSum {
 public:
  HWY_INLINE GroupSum() : sum_(words(0)), part_(words(0)) {}
  template <int Q>
  HWY_INLINE void add(Bytes w, Bytes x) {
    if constexpr (Room <= 0) {
      sum_ = add_products<Room>(sum_, prepared<Room>(w), x);
#if HEED_X86_BYTES
    } else if constexpr (Room == 1) {
      const Bytes a = flip(w);
      sum_ = add_words(sum_, fours(pairs(magnitude(a), with_sign(x, a)), words(kOnes)));
    } else {
      part_ = Q % Room == 0 ? pairs(w, x) : add_pairs(part_, w, x);
      if (Q % Room == Room - 1) sum_ = add_words(sum_, fours(part_, words(kOnes))), part_ = words(0);
#endif
    }
  }
  HWY_INLINE Ints take() {
    Bytes sum = sum_;
#if HEED_X86_BYTES
    if constexpr (Room > 4) sum = add_words(sum_, fours(part_, words(kOnes)));
#endif
    sum_ = part_ = words(0);
    return Ints{sum};
  }

 private:
  Bytes sum_, part_;
};

#endif

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
