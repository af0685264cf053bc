// Matrices stored in blocks of a few bits (core/block_type.h): their numbers, and their packed form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/block_type.h"
#include "kernels/gemm.h"

namespace heed::kernels {

/// A matrix [n, k] whose rows are whole blocks of one type, not one of the plain types.
struct BlockRows {
  BlockType type = BlockType::q8_0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const std::byte* data = nullptr;
  const std::int32_t* order = nullptr;  // row i lies at place order[i]; null: at place i
};

/// What the codes of a GroupRows stand for: integers, NF4 or FP8 (e4m3).
enum class GroupCode : std::uint8_t { integer, nf4, e4m3 };
inline constexpr std::int64_t kLeastGroup = 32;

/// A matrix [n, k] of codes, whose rows have a scale for each `group` of k:
/// w = scale (code - center - zero), or scale times the number that a code names.
struct GroupRows {
  GroupCode code = GroupCode::integer;
  int bits = 4;  // of a code, at most 8
  std::int64_t n = 0;
  std::int64_t k = 0;                   // whole groups
  std::int64_t group = 32;              // a multiple of kLeastGroup
  DType scale_type = DType::f16;        // f16, bf16 or f32, of which the scales are
  const std::uint8_t* codes = nullptr;  // [n, k]
  const float* scales = nullptr;        // [n, k / group]
  const std::uint8_t* zeros = nullptr;  // [n, k / group], or null
  float center = 0;

  /// Of the codes, as many bits each as they have, and of the scales and zeros.
  std::int64_t bytes() const {
    const std::int64_t scale_bits = static_cast<std::int64_t>(size_of(scale_type)) * 8;
    return n * (k * bits + k / group * (scale_bits + (zeros != nullptr ? bits : 0))) / 8;
  }
};

/// y [n, k] = the numbers, those of ggml to the last bit: each is fma(scale, code, offset), where scale and
/// offset of its group are exact.
void dequantize(const BlockRows& w, float* y);
void dequantize(const GroupRows& w, float* y);

/// The packed form, as large as the blocks or a few percent larger. Products and lookups with it give the
/// bits of the dequantized numbers.
std::shared_ptr<const PackedMatrix> pack(const BlockRows& w);
std::shared_ptr<const PackedMatrix> pack(const GroupRows& w);

/// y [n, k] = the numbers of a packed matrix in blocks.
void dequantize(const PackedMatrix& w, std::int64_t n, std::int64_t k, float* y);

}  // namespace heed::kernels
