// Settings, rows and parts that BERT and its descendants share.
#include "models/bert_common.h"

#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "models/config_fields.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

std::string bert_layer(const std::string& prefix, std::int64_t layer) {
  return prefix + "encoder.layer." + std::to_string(layer) + ".";
}

}  // namespace

EncoderConfig parse_bert_settings(const Config& json, std::int64_t padding) {
  EncoderConfig c = EncoderConfig::parse_common(json);
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.d_model = json.positive_integer("hidden_size", 768);
  c.d_embedding = c.d_model;
  c.layers = layer_count(json, "num_hidden_layers", 12);
  c.heads = json.positive_integer("num_attention_heads", 12);
  c.d_ff = json.positive_integer("intermediate_size", 3072);
  c.positions = json.positive_integer("max_position_embeddings", 512);
  c.token_types = json.positive_integer("type_vocab_size", 2);
  c.activation = activation_setting(json, "hidden_act", json.string("hidden_act", "gelu"));
  c.norm_eps = norm_epsilon(json, "layer_norm_eps", 1e-12);
  c.dropout = probability(json, "hidden_dropout_prob", 0.1);
  c.attention_dropout = probability(json, "attention_probs_dropout_prob", 0.1);
  c.head_dropout = probability(json, "classifier_dropout", c.dropout);
  c.padding = padding_setting(json, padding, c.vocab_size);
  c.max_positions = c.positions;
  check_heads(json, "num_attention_heads", c.d_model, c.heads);
  return c;
}

void add_bert_embeddings(TensorTable& table, const EncoderConfig& c, const std::string& prefix) {
  const std::string name = prefix + "embeddings.";
  const std::int64_t width = c.d_embedding;
  table.rows.push_back({name + "word_embeddings.weight", {c.vocab_size, width}, Init::embedding});
  table.rows.push_back({name + "position_embeddings.weight", {c.positions, width}, Init::embedding});
  if (c.token_types > 0)
    table.rows.push_back({name + "token_type_embeddings.weight", {c.token_types, width}, Init::embedding});
  add_norm(table, name + "LayerNorm", width);
}

InputEmbeddings bert_embeddings(const EncoderConfig& c, const Weights& weights, const std::string& prefix) {
  const std::string name = prefix + "embeddings.";
  return {.tokens = {weights[name + "word_embeddings.weight"], 1.0, c.padding},
          .token_types = weights.find(name + "token_type_embeddings.weight"),
          .positions = AdditivePositions(weights[name + "position_embeddings.weight"]),
          .norm = norm_part(weights, name + "LayerNorm", NormKind::layer, c.norm_eps),
          .dropout = c.dropout};
}

void add_bert_body(TensorTable& table, const EncoderConfig& c, const std::string& prefix, bool pooler) {
  add_bert_embeddings(table, c, prefix);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = bert_layer(prefix, i);
    for (const char* part : {"query", "key", "value"})
      add_linear(table, layer + "attention.self." + part, c.d_model, c.d_model);
    add_linear(table, layer + "attention.output.dense", c.d_model, c.d_model);
    add_norm(table, layer + "attention.output.LayerNorm", c.d_model);
    add_linear(table, layer + "intermediate.dense", c.d_ff, c.d_model);
    add_linear(table, layer + "output.dense", c.d_model, c.d_ff);
    add_norm(table, layer + "output.LayerNorm", c.d_model);
  }
  if (pooler) add_linear(table, prefix + "pooler.dense", c.d_model, c.d_model);
}

EncoderParts bert_body(const EncoderConfig& c, const Weights& weights, const std::string& prefix) {
  EncoderParts parts{.embeddings = bert_embeddings(c, weights, prefix)};
  const auto linear = [&](const std::string& name) { return linear_part(weights, name); };
  const auto norm = [&](const std::string& name) {
    return norm_part(weights, name, NormKind::layer, c.norm_eps);
  };
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string file = bert_layer(prefix, i), self = file + "attention.self.";
    const SelfAttention attention{{.q = linear(self + "query"),
                                   .k = linear(self + "key"),
                                   .v = linear(self + "value"),
                                   .out = linear(file + "attention.output.dense"),
                                   .heads = c.heads,
                                   .kv_heads = c.heads,
                                   .dropout = c.attention_dropout}};
    const FeedForward feed_forward{linear(file + "intermediate.dense"), linear(file + "output.dense"),
                                   c.activation};
    parts.stack.layers.push_back(
        {{post_norm("self_attn", norm(file + "attention.output.LayerNorm"), attention, c.dropout),
          post_norm("feed_forward", norm(file + "output.LayerNorm"), feed_forward, c.dropout)}});
  }
  if (weights.find(prefix + "pooler.dense.weight").defined()) parts.pooler = linear(prefix + "pooler.dense");
  return parts;
}

void add_label_head(TensorTable& table, const EncoderConfig& c, const std::string& classifier) {
  if (c.head == EncoderHead::span) add_linear(table, "qa_outputs", 2, c.d_model);
  if (c.head == EncoderHead::sequence || c.head == EncoderHead::token)
    add_linear(table, classifier, static_cast<std::int64_t>(c.labels.size()), c.d_model);
}

EncoderHeadParts label_head(const EncoderConfig& c, const Weights& weights, const std::string& classifier) {
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
    table.rows.push_back({name + ".weight", {c.vocab_size, c.d_embedding}, Init::xavier});
    bias_row.name = name + ".bias";
    if (bias != bias_row.name) {
      bias_row.aliases.push_back(bias);
      table.rows.push_back({bias, {c.vocab_size}, Init::zeros, false, false});
    }
  }
  table.rows.push_back(bias_row);
}

}  // namespace heed
