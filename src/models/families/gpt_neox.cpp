// The GPT-NeoX family: its config, and the model built from parts.
#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/ops/activation.h"
#include "models/config_fields.h"
#include "models/decoder.h"
#include "models/families.h"

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
  return c;
}

std::unique_ptr<Model> build_neox(const NeoxConfig& c, WeightBuilder& w) {
  const std::int64_t d = c.hidden_size, heads = c.num_attention_heads;
  const auto norm = [&](const std::string& name) { return w.layer_norm(name, d, c.layer_norm_eps); };
  const OutputMap output{"embed_out.weight", c.tie_word_embeddings, c.headless};
  w.set_prefix("gpt_neox.");
  DecoderParts parts;
  parts.embeddings.tokens.table = w.embedding("gpt_neox.embed_in.weight", c.vocab_size, d, {}, output);
  parts.embeddings.dropout = c.hidden_dropout;
  const auto rotary = c.rotary.dim > 0 ? std::make_shared<RotaryPositions>(c.rotary) : nullptr;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string file = "gpt_neox.layers." + std::to_string(i) + ".";
    const Norm first = norm(file + "input_layernorm"), second = norm(file + "post_attention_layernorm");
    const Linear qkv = w.linear(file + "attention.query_key_value", 3 * d, d, c.attention_bias);
    const SelfAttention attention{{.out = w.linear(file + "attention.dense", d, d, c.attention_bias),
                                   .heads = heads,
                                   .kv_heads = heads,
                                   .dropout = c.attention_dropout,
                                   .rotary = rotary,
                                   .fused = qkv_by_head(qkv, d / heads)}};
    const FeedForward feed_forward{w.linear(file + "mlp.dense_h_to_4h", c.intermediate_size, d),
                                   w.linear(file + "mlp.dense_4h_to_h", d, c.intermediate_size),
                                   activation_named(c.hidden_act)};
    Layer layer{{pre_norm("self_attn", first, attention, c.hidden_dropout),
                 pre_norm("feed_forward", second, feed_forward, c.hidden_dropout)}};
    if (c.use_parallel_residual) {
      layer.steps[0].sublayers.push_back(std::move(layer.steps[1].sublayers[0]));
      layer.steps.pop_back();
    }
    parts.stack.layers.push_back(std::move(layer));
    for (const char* buffer : {"bias", "masked_bias", "rotary_emb.inv_freq"})  // in early files
      w.ignore(file + "attention." + buffer);
  }
  parts.stack.final_norm = norm("gpt_neox.final_layer_norm");
  parts.output.weight = w.output(output, c.vocab_size, d);
  return assemble_decoder(
      w.finish(), std::move(parts),
      {.trained_positions = c.max_position_embeddings, .rows_are_independent = !follows_length(c.rotary)});
}

}  // namespace

Family gpt_neox_family() { return family<&NeoxConfig::parse, build_neox>({"gpt_neox"}); }

}  // namespace heed
