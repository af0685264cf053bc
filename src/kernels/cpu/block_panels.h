// The packed form of quantized matrices. A panel holds 32 rows of w; its blocks follow each other along k. A
// block of a panel has, for its 32 rows side by side, the scales and then the codes in one or two planes of
// bits:
//
//   scale   [32], of 8, 16 or 32 bits
//   minimum f16 [32]
//   sub     i8 [groups][32], multiples of the scale; Q2_K has those of the minimum in the same bytes
//   sub_min u8 [groups][32], multiples of the minimum
//   zero    u8 [32], the code of 0
//   low     the low bits of the codes
//   high    the others
//
// In a plane of b bits, a word of 32 bits belongs to one row and holds 32 / b steps along k: step s has the
// bits from 8 (s mod 4) + b (s / 4) on. So each step of all rows is a shift and a mask of whole vectors, and
// four steps of a row lie side by side as bytes, as instructions for products of bytes take them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/block_type.h"

namespace heed::kernels {

inline constexpr std::int64_t kNr = 32;                              // rows of w in a panel
inline constexpr std::int64_t kInt8Chunk = 32;                       // rounded numbers of a row side by side
inline constexpr std::int64_t kMostSteps = 128;                      // of a sum of integers
inline constexpr std::int64_t kMostNumbers = 256, kMostGroups = 16;  // in a block

/// How a block's scale is stored: f16, bf16, f32, or the exponent of half a power of two (MXFP4).
enum class ScaleType : std::uint8_t { f16, bf16, f32, e8m0 };
/// What a code stands for: itself, or the number that it names.
enum class CodeType : std::uint8_t { integer, non_linear, e2m1, nf4, e4m3 };

/// How numbers follow from codes: w = scale * code + offset with one rounding, or w = scale * number.
struct BlockForm {
  ScaleType scale = ScaleType::f16;
  CodeType code = CodeType::integer;
  int low = 4, high = 0;      // bits in the planes
  std::int64_t numbers = 32;  // in a block
  std::int64_t group = 32;    // steps that share a scale
  int sub = 0;                // sub-scales in a block
  int sub_min = 0;            // the same of minima
  bool minimum = false;
  bool sub_nibbles = false;  // sub has those of the minima in its upper bits
  bool zero = false;
  float center = 0;  // offset = -(center + zero) * scale

  /// Whether a product of scale and zero has more digits than an f32: then w = scale * (code - center -
  /// zero).
  constexpr bool is_centered() const { return scale == ScaleType::f32 && code == CodeType::integer; }
  constexpr std::int64_t scale_size() const {
    return scale == ScaleType::e8m0 ? 1 : scale == ScaleType::f32 ? 4 : 2;
  }
  constexpr std::int64_t scale_bytes() const {
    return kNr * (scale_size() + (minimum ? 2 : 0) + sub + sub_min + (zero ? 1 : 0));
  }
  constexpr std::int64_t plane_bytes(int bits) const { return kNr * numbers * bits / 8; }
  constexpr std::int64_t bytes() const { return scale_bytes() + plane_bytes(low) + plane_bytes(high); }

  // In products of bytes a code, or the number that it names, is a byte without sign:
  constexpr int largest_byte() const {
    if (code == CodeType::e2m1) return 24;
    return code == CodeType::integer ? (1 << (low + high)) - 1 : 255;
  }
  /// What the bytes are above the codes that the scale belongs to, where that is the same everywhere.
  constexpr std::int32_t byte_center() const {
    if (code == CodeType::e2m1) return 12;
    if (code == CodeType::non_linear) return 128;
    return minimum || zero ? 0 : static_cast<std::int32_t>(center);
  }
};

/// That of a type of ggml, other than the plain ones.
const BlockForm& form_of(BlockType type);

/// The numbers of codes of 4 bits: of IQ4_NL and IQ4_XS; of MXFP4, twice those of e2m1, as its scales are
/// halved; of NF4 (Dettmers et al. 2023, "QLoRA", appendix E).
inline constexpr std::array<float, 16> kNonLinear = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr std::array<float, 16> kE2m1 = {0, 1, 2, 3, 4, 6, 8, 12, -0.0F, -1, -2, -3, -4, -6, -8, -12};
inline constexpr std::array<float, 16> kNf4 = {-1.0F,
                                               -0.6961928009986877F,
                                               -0.5250730514526367F,
                                               -0.39491748809814453F,
                                               -0.28444138169288635F,
                                               -0.18477343022823334F,
                                               -0.09105003625154495F,
                                               0.0F,
                                               0.07958029955625534F,
                                               0.16093020141124725F,
                                               0.24611230194568634F,
                                               0.33791524171829224F,
                                               0.44070982933044434F,
                                               0.5626170039176941F,
                                               0.7229568362236023F,
                                               1.0F};

}  // namespace heed::kernels
