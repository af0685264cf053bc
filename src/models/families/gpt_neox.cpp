// The GPT-NeoX family: its config, its table of tensors, and the model built from parts.
#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/ops/activation.h"
#include "models/config_fields.h"
#include "models/decoder.h"
#include "models/families.h"
#include "models/families/rope_config.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

struct NeoxConfig {
  std::int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
  std::string hidden_act;
  double attention_dropout, hidden_dropout, layer_norm_eps;
  bool use_parallel_residual, attention_bias, tie_word_embeddings, headless;
  std::int64_t max_position_embeddings;
  RotaryOptions rotary;

  static NeoxConfig parse(const Config& json);
};

NeoxConfig NeoxConfig::parse(const Config& json) {
  NeoxConfig c;
  c.vocab_size = json.positive_integer("vocab_size", 50432);
  c.hidden_size = json.positive_integer("hidden_size", 6144);
  c.num_hidden_layers = layer_count(json, "num_hidden_layers", 44);
  c.num_attention_heads = json.positive_integer("num_attention_heads", 64);
  c.intermediate_size = json.positive_integer("intermediate_size", 24576);
  c.hidden_act = json.string("hidden_act", "gelu");
  c.attention_dropout = probability(json, "attention_dropout", 0);
  c.hidden_dropout = probability(json, "hidden_dropout", 0);
  c.layer_norm_eps = norm_epsilon(json, "layer_norm_eps", 1e-5);
  c.use_parallel_residual = json.boolean("use_parallel_residual", true);
  c.attention_bias = json.boolean("attention_bias", true);
  c.tie_word_embeddings = json.boolean("tie_word_embeddings", false);
  check_heads(json, "num_attention_heads", c.hidden_size, c.num_attention_heads);
  activation_setting(json, "hidden_act", c.hidden_act);
  c.max_position_embeddings = json.positive_integer("max_position_embeddings", 2048);
  c.rotary = rotary_options(json, c.hidden_size / c.num_attention_heads, c.max_position_embeddings,
                            {.theta = "rotary_emb_base", .partial = "rotary_pct", .partial_default = 0.25});
  json.ignore({"attention_probs_dropout_prob", "classifier_dropout", "hidden_dropout_prob",
               "initializer_range", "is_decoder", "partial_rotary_factor", "rope_theta"});
  c.headless = is_headless(json);
  ignore_common_keys(json);
  return c;
}

std::string neox_layer(std::int64_t i) { return "gpt_neox.layers." + std::to_string(i) + "."; }

TensorTable neox_table(const NeoxConfig& c, const HasTensor&) {
  TensorTable table;
  table.prefix = "gpt_neox.";
  add_embedding(table, "gpt_neox.embed_in.weight", c.vocab_size, c.hidden_size);
  if (c.tie_word_embeddings) table.rows.back().tied.push_back("embed_out.weight");
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = neox_layer(i);
    add_norm(table, layer + "input_layernorm", c.hidden_size);
    add_norm(table, layer + "post_attention_layernorm", c.hidden_size);
    add_linear(table, layer + "attention.query_key_value", 3 * c.hidden_size, c.hidden_size,
               c.attention_bias);
    add_linear(table, layer + "attention.dense", c.hidden_size, c.hidden_size, c.attention_bias);
    add_linear(table, layer + "mlp.dense_h_to_4h", c.intermediate_size, c.hidden_size);
    add_linear(table, layer + "mlp.dense_4h_to_h", c.hidden_size, c.intermediate_size);
    for (const char* buffer : {"bias", "masked_bias", "rotary_emb.inv_freq"})  // in early files
      table.ignored_names.push_back(layer + "attention." + buffer);
  }
  add_norm(table, "gpt_neox.final_layer_norm", c.hidden_size);
  if (!c.tie_word_embeddings)
    add_output(table, c.headless, "embed_out.weight", {c.vocab_size, c.hidden_size});
  return table;
}

std::unique_ptr<Model> build_neox(const NeoxConfig& c, ModelFiles files) {
  const Weights& weights = files.weights;
  const auto norm = [&](const std::string& name) {
    return norm_part(weights, name, NormKind::layer, c.layer_norm_eps);
  };
  const auto linear = [&](const std::string& name) { return linear_part(weights, name); };
  DecoderParts parts;
  parts.embeddings.tokens.table = weights["gpt_neox.embed_in.weight"];
  parts.embeddings.dropout = c.hidden_dropout;
  const auto rotary = c.rotary.dim > 0 ? std::make_shared<RotaryPositions>(c.rotary) : nullptr;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string file = neox_layer(i);
    const SelfAttention attention{{.out = linear(file + "attention.dense"),
                                   .heads = c.num_attention_heads,
                                   .kv_heads = c.num_attention_heads,
                                   .dropout = c.attention_dropout,
                                   .rotary = rotary,
                                   .fused = qkv_by_head(linear(file + "attention.query_key_value"),
                                                        c.hidden_size / c.num_attention_heads)}};
    const FeedForward feed_forward{linear(file + "mlp.dense_h_to_4h"), linear(file + "mlp.dense_4h_to_h"),
                                   activation_named(c.hidden_act)};
    Layer layer{
        {pre_norm("self_attn", norm(file + "input_layernorm"), attention, c.hidden_dropout),
         pre_norm("feed_forward", norm(file + "post_attention_layernorm"), feed_forward, c.hidden_dropout)}};
    if (c.use_parallel_residual) {
      layer.steps[0].sublayers.push_back(std::move(layer.steps[1].sublayers[0]));
      layer.steps.pop_back();
    }
    parts.stack.layers.push_back(std::move(layer));
  }
  parts.stack.final_norm = norm("gpt_neox.final_layer_norm");
  parts.output.weight = weights.find("embed_out.weight");
  return assemble_decoder(
      std::move(files), std::move(parts),
      {.trained_positions = c.max_position_embeddings, .rows_are_independent = !follows_length(c.rotary)});
}

}  // namespace

Family gpt_neox_family() { return family<&NeoxConfig::parse, neox_table, build_neox>({"gpt_neox"}); }

}  // namespace heed
