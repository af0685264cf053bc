// Linear maps and norms, as rows of a table and as parts.
#include "models/tensor_rows.h"

namespace heed {

void add_linear(TensorTable& table, const std::string& name, std::int64_t out, std::int64_t in, bool bias) {
  table.rows.push_back({name + ".weight", {out, in}, Init::xavier});
  table.rows.back().map = MapKind::linear;
  if (bias) table.rows.push_back({name + ".bias", {out}, Init::zeros});
}

void add_norm(TensorTable& table, const std::string& name, std::int64_t dim, bool bias, Init weight) {
  table.rows.push_back({name + ".weight", {dim}, weight});
  if (bias) table.rows.push_back({name + ".bias", {dim}, Init::zeros});
}

void add_embedding(TensorTable& table, const std::string& name, std::int64_t count, std::int64_t dim,
                   std::optional<std::int64_t> padding) {
  table.rows.push_back({name, {count, dim}, Init::embedding});
  table.rows.back().padding = padding;
  table.rows.back().map = MapKind::table;
}

Linear linear_part(const Weights& weights, const std::string& name) {
  return {weights[name + ".weight"], weights.find(name + ".bias")};
}

Norm norm_part(const Weights& weights, const std::string& name, NormKind kind, double eps) {
  return {kind, weights[name + ".weight"], weights.find(name + ".bias"), eps};
}

}  // namespace heed
