// Embeddings whose rows are summed when they are read.
#pragma once

#include <optional>

#include "heed/nn/linear.h"
#include "ops/embedding.h"

namespace heed {

/// embedding(ids), to be summed by sum_when_read(); none where a gradient, an adapter or the form of the
/// table is in the way.
std::optional<TableRows> rows_when_read(const Embedding& embedding, const Tensor& ids);

}  // namespace heed
