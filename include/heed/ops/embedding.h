// Embedding lookup: rows of a table by index.
#pragma once

#include <optional>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// scale * table[ids]: table [V, D] (f32, f64; bf16 or f16, giving f32 and f32 gradients), ids i64 [...],
/// result [..., D]. The row `padding_id` gets no gradient from lookups. Throws Error for an id outside [0,
/// V).
Tensor embedding(const Tensor& table, const Tensor& ids, double scale = 1.0,
                 std::optional<std::int64_t> padding_id = std::nullopt);

}  // namespace heed
