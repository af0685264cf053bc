// Settings, rows and parts of encoders of BERT's shape.
#include "models/bert_layout.h"

#include "models/config_fields.h"
#include "models/rows.h"

namespace heed {
namespace {

std::string bert_layer(const std::string& prefix, std::int64_t layer) {
  return prefix + "encoder.layer." + std::to_string(layer) + ".";
}

}  // namespace

EncoderConfig parse_bert_settings(const Config& json, std::int64_t padding) {
  EncoderConfig c = EncoderConfig::parse_common(json);
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.width = json.positive_integer("hidden_size", 768);
  c.embedding_width = c.width;
  c.layers = layer_count(json, "num_hidden_layers", 12);
  c.heads = json.positive_integer("num_attention_heads", 12);
  c.inner = json.positive_integer("intermediate_size", 3072);
  c.positions = json.positive_integer("max_position_embeddings", 512);
  c.types = json.positive_integer("type_vocab_size", 2);
  c.activation = activation_setting(json, "hidden_act", json.string("hidden_act", "gelu"));
  c.norm_eps = norm_epsilon(json, "layer_norm_eps", 1e-12);
  c.dropout = probability(json, "hidden_dropout_prob", 0.1);
  c.attention_dropout = probability(json, "attention_probs_dropout_prob", 0.1);
  c.head_dropout = probability(json, "classifier_dropout", c.dropout);
  c.padding = padding_setting(json, padding, c.vocab_size);
  check_heads(json, "num_attention_heads", c.width, c.heads);
  return c;
}

void add_bert_embeddings(TensorTable& table, const EncoderConfig& c, const std::string& prefix) {
  const std::string name = prefix + "embeddings.";
  const std::int64_t width = c.embedding_width;
  table.rows.push_back({name + "word_embeddings.weight", {c.vocab_size, width}, Init::embedding});
  table.rows.push_back({name + "position_embeddings.weight", {c.positions, width}, Init::embedding});
  if (c.types > 0)
    table.rows.push_back({name + "token_type_embeddings.weight", {c.types, width}, Init::embedding});
  add_norm(table, name + "LayerNorm", width);
}

void build_bert_embeddings(EncoderParts& parts, const EncoderConfig& c, const Weights& weights,
                           const std::string& prefix) {
  const std::string name = prefix + "embeddings.";
  parts.words = {weights[name + "word_embeddings.weight"], 1.0, c.padding};
  parts.positions = {weights[name + "position_embeddings.weight"], 1.0, std::nullopt};
  parts.types = weights.find(name + "token_type_embeddings.weight");
  parts.norm = norm_part(weights, name + "LayerNorm", NormKind::layer, c.norm_eps);
  parts.dropout = c.dropout;
}

void add_bert_body(TensorTable& table, const EncoderConfig& c, const std::string& prefix, bool pooler) {
  add_bert_embeddings(table, c, prefix);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = bert_layer(prefix, i);
    for (const char* part : {"query", "key", "value"})
      add_linear(table, layer + "attention.self." + part, c.width, c.width);
    add_linear(table, layer + "attention.output.dense", c.width, c.width);
    add_norm(table, layer + "attention.output.LayerNorm", c.width);
    add_linear(table, layer + "intermediate.dense", c.inner, c.width);
    add_linear(table, layer + "output.dense", c.width, c.inner);
    add_norm(table, layer + "output.LayerNorm", c.width);
  }
  if (pooler) add_linear(table, prefix + "pooler.dense", c.width, c.width);
}

EncoderParts build_bert_body(const EncoderConfig& c, const Weights& weights, const std::string& prefix) {
  EncoderParts parts;
  build_bert_embeddings(parts, c, weights, prefix);
  const auto part = [&](const std::string& name) { return linear_part(weights, name); };
  const auto residual = [&](const std::string& name) -> Residual {
    return {norm_part(weights, name, NormKind::layer, c.norm_eps), NormPlace::post, c.dropout};
  };
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string file = bert_layer(prefix, i);
    const std::string name = "encoder.layers." + std::to_string(i), self = file + "attention.self.";
    parts.encoder.layers.push_back(
        {name,
         {name + ".self_attn", part(self + "query"), part(self + "key"), part(self + "value"),
          part(file + "attention.output.dense"), c.heads, c.heads, c.attention_dropout},
         residual(file + "attention.output.LayerNorm"),
         {part(file + "intermediate.dense"), part(file + "output.dense"), c.activation, 0.0},
         residual(file + "output.LayerNorm")});
  }
  if (weights.find(prefix + "pooler.dense.weight").defined()) parts.pooler = part(prefix + "pooler.dense");
  return parts;
}

void add_label_head(TensorTable& table, const EncoderConfig& c, const std::string& classifier) {
  if (c.head == EncoderHead::span) add_linear(table, "qa_outputs", 2, c.width);
  if (c.head == EncoderHead::sequence || c.head == EncoderHead::token)
    add_linear(table, classifier, static_cast<std::int64_t>(c.labels.size()), c.width);
}

EncoderHeadParts build_label_head(const EncoderConfig& c, const Weights& weights,
                                  const std::string& classifier) {
  EncoderHeadParts head;
  const bool span = c.head == EncoderHead::span;
  head.output = linear_part(weights, span ? "qa_outputs" : classifier);
  head.dropout = span ? 0.0 : c.head_dropout;
  return head;
}

void add_vocabulary_head(TensorTable& table, const EncoderConfig& c, const std::string& name,
                         const std::string& bias, const std::string& words) {
  TensorRow bias_row{bias, {c.vocab_size}, Init::zeros};
  if (c.tied) {
    for (TensorRow& row : table.rows) {
      if (row.name == words) row.tied.push_back(name + ".weight");
    }
    if (bias != name + ".bias") bias_row.tied.push_back(name + ".bias");
  } else {  // such files hold both biases, though only the output map's own is added
    table.rows.push_back({name + ".weight", {c.vocab_size, c.embedding_width}, Init::xavier});
    bias_row.name = name + ".bias";
    if (bias != bias_row.name) {
      bias_row.aliases.push_back(bias);
      table.rows.push_back({bias, {c.vocab_size}, Init::zeros, false, false});
    }
  }
  table.rows.push_back(bias_row);
}

}  // namespace heed
