// ALBERT: its config, its heads, and the model built from parts.
#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/bert_common.h"

namespace heed {
namespace {

const std::string kAlbert = "albert.";

EncoderHeads albert_heads(const EncoderConfig& c) {
  return {.prefix = kAlbert,
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
  return c;
}

Layer take_layer(const EncoderConfig& c, WeightBuilder& w, const std::string& file) {
  const auto linear = [&](const char* name) {
    return w.linear(file + "attention." + name, c.d_model, c.d_model);
  };
  const SelfAttention attention{{.q = linear("query"),
                                 .k = linear("key"),
                                 .v = linear("value"),
                                 .out = linear("dense"),
                                 .heads = c.heads,
                                 .kv_heads = c.heads,
                                 .dropout = c.attention_dropout}};
  const Norm attention_norm = w.layer_norm(file + "attention.LayerNorm", c.d_model, c.norm_eps);
  const FeedForward feed_forward{w.linear(file + "ffn", c.d_ff, c.d_model),
                                 w.linear(file + "ffn_output", c.d_model, c.d_ff), c.activation};
  const Norm layer_norm = w.layer_norm(file + "full_layer_layer_norm", c.d_model, c.norm_eps);
  return {{post_norm("self_attn", attention_norm, attention, c.dropout),
           post_norm("feed_forward", layer_norm, feed_forward)}};
}

std::unique_ptr<Model> build_albert(const EncoderConfig& c, WeightBuilder& w) {
  const EncoderHeads heads = albert_heads(c);
  const std::string prefix = begin_body(c, heads, w);
  EncoderParts parts{.embeddings = take_bert_embeddings(c, heads, w, prefix)};
  parts.embeddings.projection =
      w.linear(prefix + "encoder.embedding_hidden_mapping_in", c.d_model, c.d_embedding);
  std::vector<std::vector<Layer>> groups(static_cast<std::size_t>(c.groups));
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const std::string file =
        prefix + "encoder.albert_layer_groups." + std::to_string(group) + ".albert_layers.";
    for (std::int64_t i = 0; i < c.group_layers; ++i)
      groups[group].push_back(take_layer(c, w, file + std::to_string(i) + "."));
  }
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::vector<Layer>& group = groups[static_cast<std::size_t>(i * c.groups / c.layers)];
    parts.stack.layers.insert(parts.stack.layers.end(), group.begin(), group.end());
  }
  parts.pool = take_pooler(c, w, "pooler");
  parts.head = take_head(c, heads, w);
  return assemble_encoder(c, w.finish(), std::move(parts));
}

}  // namespace

Family albert_family() { return family<parse_albert, build_albert>({"albert"}, {"Albert"}); }

}  // namespace heed
