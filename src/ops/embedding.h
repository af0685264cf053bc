// Rows of tables in the form in which they are stored, summed when they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "heed/tensor.h"
#include "ops/weight_product.h"

namespace heed {

/// y[i] = scale * table[ids[i]], f32.
struct TableRows {
  Tensor ids;                   // i64 [...], dense
  kernels::StoredMatrix table;  // [V, width]
  std::int64_t width = 0;
  float scale = 1;
  std::shared_ptr<const void> keep = {};  // the memory of the table
};

/// Of a table [V, width] of f32, bf16 or f16, one of whose strides is 1. `packed` holds its numbers, in their
/// order, where it is not null; else they are read in place, and pages of a file stay such. Throws Error for
/// ids that are not below V.
TableRows table_rows(const Tensor& table, std::shared_ptr<const PackedWeight> packed, const Tensor& ids,
                     double scale = 1.0);

/// The sum of rows for the same number of ids, in this order, [..., width]: computed when it is read
/// (ops/computed_rows.h).
Tensor sum_when_read(std::vector<TableRows> parts);

}  // namespace heed
