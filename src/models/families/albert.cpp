// ALBERT: its config, its table of tensors and its heads.
#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "models/config_fields.h"
#include "models/encoder_heads.h"
#include "models/families.h"
#include "models/families/bert_common.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

const std::string kAlbert = "albert.";

std::string albert_prefix(const EncoderConfig& c) { return body_prefix(c, kAlbert); }

EncoderHeads albert_heads(const EncoderConfig& c) {
  return {.prefix = kAlbert,
          .words = kAlbert + "embeddings.word_embeddings.weight",
          .masked_lm = {.dense = "predictions.dense",
                        .activation = c.activation,
                        .norm = "predictions.LayerNorm",
                        .output = "predictions.decoder"},
          .output_bias = "predictions.bias",
          .sequence = {.dense = kAlbert + "pooler",
                       .activation = Activation::tanh,
                       .dropout = c.head_dropout,
                       .output = "classifier"},
          .token = {.dropout = c.head_dropout, .output = "classifier"},
          .unused = {"sop_classifier.classifier"}};
}

std::string albert_layer(const EncoderConfig& c, std::int64_t group, std::int64_t layer) {
  return albert_prefix(c) + "encoder.albert_layer_groups." + std::to_string(group) + ".albert_layers." +
         std::to_string(layer) + ".";
}

EncoderConfig parse_albert(const Config& json) {
  EncoderConfig c = EncoderConfig::parse_common(json);
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.d_model = json.positive_integer("hidden_size", 4096);
  c.d_embedding = json.positive_integer("embedding_size", 128);
  c.layers = layer_count(json, "num_hidden_layers", 12);
  c.groups = json.positive_integer("num_hidden_groups", 1);
  c.group_layers = json.positive_integer("inner_group_num", 1);
  c.heads = json.positive_integer("num_attention_heads", 64);
  c.d_ff = json.positive_integer("intermediate_size", 16384);
  c.positions = json.positive_integer("max_position_embeddings", 512);
  c.token_types = json.positive_integer("type_vocab_size", 2);
  c.activation = activation_setting(json, "hidden_act", json.string("hidden_act", "gelu_new"));
  c.norm_eps = norm_epsilon(json, "layer_norm_eps", 1e-12);
  c.dropout = probability(json, "hidden_dropout_prob", 0.0);
  c.attention_dropout = probability(json, "attention_probs_dropout_prob", 0.0);
  c.head_dropout = probability(json, "classifier_dropout_prob", 0.1);
  c.padding = padding_setting(json, 0, c.vocab_size);
  c.max_positions = c.positions;
  check_heads(json, "num_attention_heads", c.d_model, c.heads);
  json.ignore({"down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks"});
  ignore_common_keys(json);
  return c;
}

void add_layer(TensorTable& table, const EncoderConfig& c, const std::string& layer) {
  for (const char* part : {"query", "key", "value", "dense"})
    add_linear(table, layer + "attention." + part, c.d_model, c.d_model);
  add_norm(table, layer + "attention.LayerNorm", c.d_model);
  add_linear(table, layer + "ffn", c.d_ff, c.d_model);
  add_linear(table, layer + "ffn_output", c.d_model, c.d_ff);
  add_norm(table, layer + "full_layer_layer_norm", c.d_model);
}

TensorTable albert_table(const EncoderConfig& c, const HasTensor& has) {
  TensorTable table;
  add_bert_embeddings(table, c, albert_prefix(c));
  add_linear(table, albert_prefix(c) + "encoder.embedding_hidden_mapping_in", c.d_model, c.d_embedding);
  for (std::int64_t group = 0; group < c.groups; ++group) {
    for (std::int64_t i = 0; i < c.group_layers; ++i) add_layer(table, c, albert_layer(c, group, i));
  }
  const bool pooler = has("pooler.weight") || has("albert.pooler.weight");
  if (c.head == EncoderHead::sequence || (c.head == EncoderHead::none && pooler))
    add_linear(table, albert_prefix(c) + "pooler", c.d_model, c.d_model);
  add_head(table, c, albert_heads(c));
  return table;
}

Layer layer_part(const EncoderConfig& c, const Weights& weights, const std::string& file) {
  const auto linear = [&](const std::string& name) { return linear_part(weights, file + name); };
  const auto norm = [&](const std::string& name) {
    return norm_part(weights, file + name, NormKind::layer, c.norm_eps);
  };
  const SelfAttention attention{{.q = linear("attention.query"),
                                 .k = linear("attention.key"),
                                 .v = linear("attention.value"),
                                 .out = linear("attention.dense"),
                                 .heads = c.heads,
                                 .kv_heads = c.heads,
                                 .dropout = c.attention_dropout}};
  const FeedForward feed_forward{linear("ffn"), linear("ffn_output"), c.activation};
  return {{post_norm("self_attn", norm("attention.LayerNorm"), attention, c.dropout),
           post_norm("feed_forward", norm("full_layer_layer_norm"), feed_forward)}};
}

std::unique_ptr<Model> build_albert(const EncoderConfig& c, ModelFiles files) {
  const Weights& weights = files.weights;
  EncoderParts parts{.embeddings = bert_embeddings(c, weights, albert_prefix(c))};
  parts.embeddings.projection =
      linear_part(weights, albert_prefix(c) + "encoder.embedding_hidden_mapping_in");
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::int64_t group = i * c.groups / c.layers;
    for (std::int64_t inner = 0; inner < c.group_layers; ++inner)
      parts.stack.layers.push_back(layer_part(c, weights, albert_layer(c, group, inner)));
  }
  const std::string pooler = albert_prefix(c) + "pooler";
  if (weights.find(pooler + ".weight").defined()) parts.pooler = linear_part(weights, pooler);
  parts.head = head_parts(c, weights, albert_heads(c));
  return assemble_encoder(c, std::move(files), std::move(parts));
}

}  // namespace

Family albert_family() { return family<parse_albert, albert_table, build_albert>({"albert"}, {"Albert"}); }

}  // namespace heed
