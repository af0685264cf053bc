// The packed form of matrices in blocks. A panel holds 32 rows of w; its blocks follow each other along k. A block
// of a panel has, for its 32 rows side by side, the scales and then the codes in one or two planes of bits:
//
//   d       f16 [32], or for MXFP4 the exponents u8 [32]
//   minimum f16 [32]
//   sub     i8 [groups][32], multiples of d; Q2_K has those of the minimum in the same bytes
//   sub_min u8 [groups][32], multiples of the minimum
//   low     the low bits of the codes
//   high    the others
//
// In a plane of b bits, a word of 32 bits belongs to one row and holds 32 / b steps along k: step s has the bits
// from 8 (s mod 4) + b (s / 4) on. So each step of all rows is a shift and a mask of whole vectors, and four
// steps of a row lie side by side as bytes, as instructions for products of bytes take them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/block_type.h"
#include "kernels/cpu/packed_matrix.h"

namespace heed::kernels {

inline constexpr std::int64_t kMostNumbers = 256, kMostGroups = 16;  // in a block

/// How numbers follow from codes: w = scale * code + offset, or scale * table[code].
struct BlockForm {
  BlockType type;
  int low, high;         // bits in the planes
  std::int64_t numbers;  // in a block
  std::int64_t group;    // steps that share a scale
  int sub = 0;           // sub-scales in a block
  int sub_min = 0;       // the same of minima
  bool minimum = false;
  bool table = false;
  float center = 0;  // offset = -center * scale

  constexpr std::int64_t scale_bytes() const {
    return kNr * ((type == BlockType::mxfp4 ? 1 : 2) + (minimum ? 2 : 0) + sub + sub_min);
  }
  constexpr std::int64_t plane_bytes(int bits) const { return kNr * numbers * bits / 8; }
  constexpr std::int64_t bytes() const { return scale_bytes() + plane_bytes(low) + plane_bytes(high); }
};

inline constexpr std::array<BlockForm, 13> kBlockForms = {{
    {BlockType::q8_0, 8, 0, 32, 32, 0, 0, false, false, 128},
    {BlockType::q4_0, 4, 0, 32, 32, 0, 0, false, false, 8},
    {BlockType::q4_1, 4, 0, 32, 32, 0, 0, true, false, 0},
    {BlockType::q5_0, 4, 1, 32, 32, 0, 0, false, false, 16},
    {BlockType::q5_1, 4, 1, 32, 32, 0, 0, true, false, 0},
    {BlockType::q2_k, 2, 0, 256, 16, 16, 0, true, false, 0},
    {BlockType::q3_k, 2, 1, 256, 16, 16, 0, false, false, 4},
    {BlockType::q4_k, 4, 0, 256, 32, 8, 8, true, false, 0},
    {BlockType::q5_k, 4, 1, 256, 32, 8, 8, true, false, 0},
    {BlockType::q6_k, 4, 2, 256, 16, 16, 0, false, false, 32},
    {BlockType::iq4_nl, 4, 0, 32, 32, 0, 0, false, true, 0},
    {BlockType::iq4_xs, 4, 0, 256, 32, 8, 0, false, true, 0},
    {BlockType::mxfp4, 4, 0, 32, 32, 0, 0, false, true, 0},
}};
const BlockForm& form_of(BlockType type);

/// The values of the codes of IQ4_NL and IQ4_XS, and of MXFP4 (twice those of its e2m1 numbers: its scales are
/// halved).
inline constexpr std::array<float, 16> kNonLinear = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr std::array<float, 16> kE2m1 = {0, 1, 2, 3, 4, 6, 8, 12, -0.0F, -1, -2, -3, -4, -6, -8, -12};

/// Steps [from, from + depth) of a panel as numbers, [depth][32]. `from` and `depth` are whole blocks.
void unpack_panel(const PackedMatrix& w, std::int64_t panel, std::int64_t from, std::int64_t depth, float* to);

}  // namespace heed::kernels
