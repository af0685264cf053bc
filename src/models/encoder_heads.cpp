// Rows and parts of the heads of encoders.
#include "models/encoder_heads.h"

#include <algorithm>

#include "models/tensor_rows.h"

namespace heed {
namespace {

bool has_row(const TensorTable& table, const std::string& name) {
  return std::any_of(table.rows.begin(), table.rows.end(),
                     [&](const TensorRow& row) { return row.name == name; });
}

// The output of a masked_lm head: NAME.weight, tied to the words or not, and its bias, which may have a name
// of its own besides NAME.bias.
void add_vocabulary_head(TensorTable& table, const EncoderConfig& c, const EncoderHeads& heads) {
  const std::string& name = heads.masked_lm.output;
  const std::string bias = heads.output_bias.empty() ? name + ".bias" : heads.output_bias;
  TensorRow bias_row{bias, {c.vocab_size}, Init::zeros};
  if (c.tied) {
    for (TensorRow& row : table.rows) {
      if (row.name == heads.words) row.tied.push_back(name + ".weight");
    }
    if (bias != name + ".bias") bias_row.tied.push_back(name + ".bias");
  } else {  // such files hold both biases, though only the output map's own is added
    table.rows.push_back({name + ".weight", {c.vocab_size, c.d_embedding}, Init::xavier});
    table.rows.back().map = MapKind::output;
    bias_row.name = name + ".bias";
    if (bias != bias_row.name) {
      bias_row.aliases.push_back(bias);
      table.rows.push_back({bias, {c.vocab_size}, Init::zeros, false, false});
    }
  }
  if (heads.output_has_bias) table.rows.push_back(bias_row);
}

// The names that the heads may have in a file, those of the body without its prefix.
std::vector<std::string> head_names(const EncoderHeads& heads) {
  std::vector<std::string> maps = heads.unused, names{"embeddings.position_ids", "embeddings.token_type_ids"};
  for (const HeadMaps* head : {&heads.masked_lm, &heads.sequence, &heads.token, &heads.span})
    maps.insert(maps.end(), {head->dense, head->norm, head->output});
  for (const std::string& map : maps) {
    if (map.empty()) continue;
    const std::string name = map.starts_with(heads.prefix) ? map.substr(heads.prefix.size()) : map;
    names.insert(names.end(), {name + ".weight", name + ".bias"});
  }
  if (!heads.output_bias.empty()) names.push_back(heads.output_bias);
  return names;
}

}  // namespace

const HeadMaps& EncoderHeads::of(EncoderHead head) const {
  if (head == EncoderHead::masked_lm) return masked_lm;
  if (head == EncoderHead::sequence) return sequence;
  return head == EncoderHead::token ? token : span;
}

std::string body_prefix(const EncoderConfig& config, const std::string& prefix) {
  return config.head == EncoderHead::none ? "" : prefix;
}

void add_head(TensorTable& table, const EncoderConfig& c, const EncoderHeads& heads) {
  const std::size_t body_rows = table.rows.size();
  table.architecture = c.architecture;
  if (c.head != EncoderHead::none) {
    const HeadMaps& head = heads.of(c.head);
    const bool words = c.head == EncoderHead::masked_lm;
    const std::int64_t out = words ? c.d_embedding : c.d_model;
    if (!head.dense.empty() && !has_row(table, head.dense + ".weight"))
      add_linear(table, head.dense, out, c.d_model, heads.dense_bias);
    if (!head.norm.empty()) add_norm(table, head.norm, out, heads.norm_bias);
    if (words) {
      add_vocabulary_head(table, c, heads);
    } else {
      const auto labels = static_cast<std::int64_t>(c.labels.size());
      add_linear(table, head.output, c.head == EncoderHead::span ? 2 : labels, c.d_model);
    }
  }
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const bool pooler = c.head != EncoderHead::none && !heads.of(c.head).dense.empty() &&
                        table.rows[i].name.starts_with(heads.of(c.head).dense + ".");
    if (i >= body_rows || pooler) table.rows[i].head = true;
  }
  add_other_names(table, heads.prefix, head_names(heads));
}

std::optional<EncoderHeadParts> head_parts(const EncoderConfig& c, const Weights& weights,
                                           const EncoderHeads& heads) {
  if (c.head == EncoderHead::none) return std::nullopt;
  const HeadMaps& head = heads.of(c.head);
  EncoderHeadParts parts;
  parts.first_dropout = head.first_dropout;
  if (!head.dense.empty()) parts.dense = linear_part(weights, head.dense);
  parts.activation = head.activation;
  if (!head.norm.empty()) parts.norm = norm_part(weights, head.norm, NormKind::layer, c.norm_eps);
  parts.dropout = head.dropout;
  parts.output = linear_part(weights, head.output);
  return parts;
}

}  // namespace heed
