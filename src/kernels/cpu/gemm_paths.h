// The ways in which this processor may compute a product of f32 matrices.
#pragma once

#include <algorithm>
#include <span>

#include "kernels/cpu/block_panels.h"
#include "kernels/cpu/targets.h"
#include "kernels/gemm.h"

namespace heed::kernels::detail {

/// bf16_gemm on AMX's tiles, which take denormal numbers as 0; only where bf16_gemm_is_fast.
void bf16_gemm_amx(const Bf16Gemm& args);
/// bf16_gemm by rounding the operands and invariant_gemm, on any processor.
void bf16_gemm_rounded(const Bf16Gemm& args);
/// Bytes of a core's second-level cache, 1 MB where the system does not tell; blocks fit in it.
std::int64_t second_level_cache();
/// Whether this processor has vectors for invariant_gemm; without them it is slow.
bool invariant_gemm_has_vectors();

/// Whether int8_gemm takes a matrix: in blocks, whose codes are integers or name integers.
bool takes_int8(const PackedMatrix& w);
/// Bits of a vector of the best instruction set that HEED_TARGET allows, 0 for the portable one.
std::int64_t vector_bits();
/// The best products of bytes that the processor has for such vectors and HEED_TARGET allows.
ByteProducts byte_products();
/// invariant_gemms, where x is rounded by these products or lesser ones.
void invariant_gemms(std::span<const InvariantGemm> all, ByteProducts products,
                     const ComputeRows* rows = nullptr);

/// What a group of sums, of 16 to 128 steps, needs of a row of x besides its codes.
struct GroupOfRow {
  float scale;
  float total;        // of the rounded numbers
  std::int32_t rest;  // what the sum of products with the bytes of w lacks
};

/// Tasks of a product for each thread, so that one that is held up delays the others less.
inline constexpr std::int64_t kTasksEach = 4;

/// A product cut into tasks, parts of its columns by parts of its rows, that any thread may do. All that a
/// thread needs to begin is here, side by side: where processors are far from each other, every cache line
/// that it must fetch from the caller's takes as long as a part of a small product.
struct alignas(64) SharedGemm {
  InvariantGemm args{};
  std::int64_t across = 1, down = 1;
  // Of a product whose rows are rounded:
  ByteProducts products = ByteProducts::base;
  std::int32_t center = 0;  // the bytes of w are so much less than BlockForm says
  std::int32_t factor = 0;  // of GroupOfRow::rest: what they are below its codes
  std::int64_t tiles = 0;
  std::int64_t steps = 0;  // of a group of sums; 0: x is taken as it is
  std::int64_t chunk = 0;  // steps of a row of x that lie side by side
  bool by_row = false;     // rows of a tile are multiplied one after the other: chunks are `steps` long
  bool opposed = false;    // codes are as kernels/cpu/opposed-inl.h says
  BlockForm form{};
  const std::byte* panels = nullptr;
  std::int64_t panel_bytes = 0;
  std::int8_t* codes = nullptr;               // tile by tile: [k / chunk][rows of the tile][chunk]
  GroupOfRow* groups = nullptr;               // [groups of sums][rows of the tile]
  const SharedGemm* next = nullptr;           // rounds what this computes, which is not stored
  const ComputeRows* compute_rows = nullptr;  // of x, before they are rounded

  std::int64_t tasks() const { return across * down; }
  /// Bytes that a rounded number of x takes.
  std::int64_t code_size() const { return opposed ? 2 : 1; }
  bool is_rounded() const { return steps > 0; }
  /// Numbers of x with one scale.
  std::int64_t together() const { return std::max(steps, kInt8Chunk); }
  std::int64_t first_row(std::int64_t tile) const { return args.m * tile / tiles; }
  /// Of a tile; some may have one less.
  std::int64_t most_rows() const { return (args.m + tiles - 1) / tiles; }
};

/// How many threads a product with rounded rows is worth.
std::int64_t int8_threads(const InvariantGemm& args);
/// Rounds the rows of `shared.args`, number `place` of the products that a caller shares at once, or takes
/// those of `before` where they are the same, and cuts the product for a team.
void share_int8(SharedGemm& shared, std::int64_t team, std::size_t place, const SharedGemm* before);
void run_int8_task(const SharedGemm& shared, std::int64_t task);
/// invariant_gemm_chain of two matrices that int8_gemm takes, for two rows or more.
void int8_chain(const InvariantGemm& first, const InvariantGemm& second, ByteProducts products,
                const ComputeRows* rows = nullptr);

}  // namespace heed::kernels::detail
