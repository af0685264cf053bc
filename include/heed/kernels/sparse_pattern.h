// The patterns of sparse attention (Child et al. 2019, "Generating long sequences with sparse transformers"):
// with a stride near the square root of the length, a query attends to about that many keys.
#pragma once

#include <cstdint>

#include "heed/export.h"

namespace HEED_API heed {

enum class SparseKind : std::uint8_t {
  strided,  ///< the last `stride` keys, and every stride-th before: t - s < stride, or stride divides t - s
  fixed,    ///< the keys of the query's block of `stride`, and the last `summary` keys of each block before
};

/// Which keys s <= t a query t attends to, both counted from the start of the sequence.
struct SparsePattern {
  SparseKind kind = SparseKind::strided;
  std::int64_t stride = 0;   ///< l in the paper, at least 1
  std::int64_t summary = 1;  ///< c in the paper, of `fixed`: in [1, stride]

  bool sees(std::int64_t query, std::int64_t key) const {
    if (key > query) return false;
    if (kind == SparseKind::strided) return query - key < stride || (query - key) % stride == 0;
    return key / stride == query / stride || key % stride >= stride - summary;
  }
};

}  // namespace heed
