// Settings, rows and parts that BERT and its descendants share.
#include "models/families/bert_common.h"

#include "heed/nn/feed_forward.h"
#include "models/config_fields.h"
#include "models/tensor_rows.h"

namespace heed {

std::string bert_layer(const std::string& prefix, std::int64_t layer) {
  return prefix + "encoder.layer." + std::to_string(layer) + ".";
}

EncoderConfig parse_bert_settings(const Config& json, const BertDefaults& defaults) {
  EncoderConfig c = EncoderConfig::parse_common(json);
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.d_model = json.positive_integer("hidden_size", defaults.d_model);
  c.d_embedding = c.d_model;
  c.layers = layer_count(json, "num_hidden_layers", defaults.layers);
  c.heads = json.positive_integer("num_attention_heads", defaults.heads);
  c.d_ff = json.positive_integer("intermediate_size", defaults.d_ff);
  c.positions = json.positive_integer("max_position_embeddings", 512);
  const bool may_lack_types = defaults.token_types == 0 && json.integer("type_vocab_size", 0) == 0;
  c.token_types = may_lack_types ? 0 : json.positive_integer("type_vocab_size", defaults.token_types);
  c.activation = activation_setting(json, "hidden_act", json.string("hidden_act", "gelu"));
  c.norm_eps = norm_epsilon(json, "layer_norm_eps", defaults.norm_eps);
  c.dropout = probability(json, "hidden_dropout_prob", 0.1);
  c.attention_dropout = probability(json, "attention_probs_dropout_prob", 0.1);
  c.head_dropout = probability(json, "classifier_dropout", c.dropout);
  c.padding = padding_setting(json, defaults.padding, c.vocab_size);
  c.max_positions = c.positions;
  check_heads(json, "num_attention_heads", c.d_model, c.heads);
  return c;
}

void add_bert_embeddings(TensorTable& table, const EncoderConfig& c, const std::string& prefix) {
  const std::string name = prefix + "embeddings.";
  const std::int64_t d_embedding = c.d_embedding;
  add_embedding(table, name + "word_embeddings.weight", c.vocab_size, d_embedding, c.padding);
  const bool from_padding = c.max_positions < c.positions;  // count_positions_from_padding
  if (c.positions > 0) {
    table.rows.push_back({name + "position_embeddings.weight", {c.positions, d_embedding}, Init::embedding});
    if (from_padding) table.rows.back().padding = c.padding;
  }
  if (c.token_types > 0)
    table.rows.push_back(
        {name + "token_type_embeddings.weight", {c.token_types, d_embedding}, Init::embedding});
  add_norm(table, name + "LayerNorm", d_embedding);
}

InputEmbeddings bert_embeddings(const EncoderConfig& c, const Weights& weights, const std::string& prefix) {
  const std::string name = prefix + "embeddings.";
  std::optional<AdditivePositions> positions;
  if (c.positions > 0) positions.emplace(weights[name + "position_embeddings.weight"]);
  return {.tokens = {weights[name + "word_embeddings.weight"], 1.0, c.padding},
          .token_types = weights.find(name + "token_type_embeddings.weight"),
          .positions = positions,
          .norm = norm_part(weights, name + "LayerNorm", NormKind::layer, c.norm_eps),
          .dropout = c.dropout};
}

void add_bert_body(TensorTable& table, const EncoderConfig& c, const std::string& prefix, bool pooler,
                   const BertLayerNames& names) {
  add_bert_embeddings(table, c, prefix);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = bert_layer(prefix, i);
    for (const std::string* part : {&names.query, &names.key, &names.value, &names.out})
      add_linear(table, layer + *part, c.d_model, c.d_model);
    add_norm(table, layer + names.norm, c.d_model);
    add_linear(table, layer + "intermediate.dense", c.d_ff, c.d_model);
    add_linear(table, layer + "output.dense", c.d_model, c.d_ff);
    add_norm(table, layer + "output.LayerNorm", c.d_model);
  }
  if (pooler) add_linear(table, prefix + "pooler.dense", c.d_model, c.d_model);
}

EncoderParts bert_body(const EncoderConfig& c, const Weights& weights, const std::string& prefix,
                       const BertLayerNames& names, const BertAttention& self) {
  EncoderParts parts{.embeddings = bert_embeddings(c, weights, prefix)};
  const auto linear = [&](const std::string& name) { return linear_part(weights, name); };
  const auto norm = [&](const std::string& name) {
    return norm_part(weights, name, NormKind::layer, c.norm_eps);
  };
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string file = bert_layer(prefix, i);
    const MultiHeadAttention attention{.q = linear(file + names.query),
                                       .k = linear(file + names.key),
                                       .v = linear(file + names.value),
                                       .out = linear(file + names.out),
                                       .heads = c.heads,
                                       .kv_heads = c.heads,
                                       .dropout = c.attention_dropout};
    const FeedForward feed_forward{linear(file + "intermediate.dense"), linear(file + "output.dense"),
                                   c.activation};
    parts.stack.layers.push_back(
        {{post_norm("self_attn", norm(file + names.norm),
                    self ? self(attention, file) : Part(SelfAttention{attention}), c.dropout),
          post_norm("feed_forward", norm(file + "output.LayerNorm"), feed_forward, c.dropout)}});
  }
  if (weights.find(prefix + "pooler.dense.weight").defined()) parts.pooler = linear(prefix + "pooler.dense");
  return parts;
}

void count_positions_from_padding(const Config& json, EncoderConfig& c) {
  if (!c.padding) json.fail("pad_token_id", "an id, as positions are counted from it");
  if (c.positions <= *c.padding + 1) {
    json.fail("max_position_embeddings",
              std::string("more than pad_token_id + 1 = ") + std::to_string(*c.padding + 1));
  }
  c.max_positions = c.positions - *c.padding - 1;
}

void embed_positions_from_padding(const EncoderConfig& c, const Weights& weights, const std::string& prefix,
                                  InputEmbeddings& embeddings) {
  embeddings.unpositioned = c.padding;
  embeddings.positions =
      AdditivePositions(weights[prefix + "embeddings.position_embeddings.weight"], *c.padding + 1, c.padding);
}

EncoderHeads roberta_heads(const EncoderConfig& c, const std::string& prefix) {
  return {.prefix = prefix,
          .words = prefix + "embeddings.word_embeddings.weight",
          .masked_lm = {.dense = "lm_head.dense",
                        .activation = Activation::gelu,  // whatever the layers have
                        .norm = "lm_head.layer_norm",
                        .output = "lm_head.decoder"},
          .output_bias = "lm_head.bias",
          .sequence = {.first_dropout = c.head_dropout,
                       .dense = "classifier.dense",
                       .activation = Activation::tanh,
                       .dropout = c.head_dropout,
                       .output = "classifier.out_proj"},
          .token = {.dropout = c.head_dropout, .output = "classifier"},
          .unused = {prefix + "pooler.dense"}};
}

}  // namespace heed
