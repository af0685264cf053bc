// Rows and parts that most families' tables have: linear maps and norms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heed/models/tensor_table.h"
#include "heed/nn/linear.h"
#include "heed/nn/norm.h"

namespace heed {

/// NAME.weight [out, in] and, with `bias`, NAME.bias [out].
void add_linear(TensorTable& table, const std::string& name, std::int64_t out, std::int64_t in,
                bool bias = true);
/// NAME.weight [dim] and, with `bias`, NAME.bias [dim].
void add_norm(TensorTable& table, const std::string& name, std::int64_t dim, bool bias = true,
              Init weight = Init::ones);
/// A table of tokens, NAME [count, dim], whose row `padding` is zeros in a new model (PyTorch's padding_idx).
void add_embedding(TensorTable& table, const std::string& name, std::int64_t count, std::int64_t dim,
                   std::optional<std::int64_t> padding = std::nullopt);
/// The part over NAME.weight and, where the table has it, NAME.bias.
Linear linear_part(const Weights& weights, const std::string& name);
Norm norm_part(const Weights& weights, const std::string& name, NormKind kind, double eps);

}  // namespace heed
