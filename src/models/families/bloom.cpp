// The BLOOM family: its config, and the model built from parts.
#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "models/config_fields.h"
#include "models/decoder.h"
#include "models/families.h"

namespace heed {
namespace {

struct BloomConfig {
  std::int64_t vocab_size, hidden_size, n_layer, n_head;
  double layer_norm_epsilon, hidden_dropout, attention_dropout;
  bool apply_residual_connection_post_layernorm, tie_word_embeddings, biased_sums, headless;

  static BloomConfig parse(const Config& json);
};

BloomConfig BloomConfig::parse(const Config& json) {
  BloomConfig c;
  const char* heads = common_or_own(json, "num_attention_heads", "n_head");
  c.vocab_size = json.positive_integer("vocab_size", 250880);
  c.hidden_size =
      json.positive_integer(common_or_own(json, "n_embed", "hidden_size"), 64);  // n_embed in the first files
  c.n_layer = layer_count(json, common_or_own(json, "num_hidden_layers", "n_layer"), 2);
  c.n_head = json.positive_integer(heads, 8);
  c.layer_norm_epsilon = norm_epsilon(json, "layer_norm_epsilon", 1e-5);
  c.hidden_dropout = probability(json, "hidden_dropout", 0);
  c.attention_dropout = probability(json, "attention_dropout", 0);
  c.apply_residual_connection_post_layernorm =
      json.boolean("apply_residual_connection_post_layernorm", false);
  // transformers adds up the parts of a split product itself when asked to, and then leaves out the bias.
  const bool split = json.positive_integer("pretraining_tp", 1) > 1;
  c.biased_sums = !(json.boolean("slow_but_exact", false) && split);
  c.tie_word_embeddings = json.boolean("tie_word_embeddings", true);
  check_heads(json, heads, c.hidden_size, c.n_head);
  // Settings of training, and of how products are split over machines.
  json.ignore({"attention_softmax_in_fp32", "bias_dropout_fusion", "initializer_range",
               "masked_softmax_fusion", "n_inner", "offset_alibi", "seq_length", "skip_bias_add",
               "skip_bias_add_qkv", "unk_token_id"});
  c.headless = is_headless(json);
  return c;
}

std::unique_ptr<Model> build_bloom(const BloomConfig& c, WeightBuilder& w) {
  const std::int64_t d = c.hidden_size;
  const auto norm = [&](const std::string& name) { return w.layer_norm(name, d, c.layer_norm_epsilon); };
  const auto summed = [&](const std::string& name, std::int64_t in) {
    Linear part = w.linear(name, d, in);
    if (!c.biased_sums) part.bias = {};
    return part;
  };
  const OutputMap output{"lm_head.weight", c.tie_word_embeddings, c.headless};
  w.set_prefix("transformer.");
  DecoderParts parts;
  parts.embeddings.tokens.table =
      w.embedding("transformer.word_embeddings.weight", c.vocab_size, d, {}, output);
  parts.embeddings.token_norm = norm("transformer.word_embeddings_layernorm");
  const auto alibi = std::make_shared<AlibiPositions>(alibi_slopes(c.n_head), true);
  for (std::int64_t i = 0; i < c.n_layer; ++i) {
    const std::string file = "transformer.h." + std::to_string(i) + ".";
    const Norm first = norm(file + "input_layernorm");
    const Linear qkv = w.linear(file + "self_attention.query_key_value", 3 * d, d);
    const SelfAttention attention{{.out = summed(file + "self_attention.dense", d),
                                   .heads = c.n_head,
                                   .kv_heads = c.n_head,
                                   .dropout = c.attention_dropout,
                                   .bias = alibi,
                                   .fused = qkv_by_head(qkv, d / c.n_head)}};
    const Norm second = norm(file + "post_attention_layernorm");
    const FeedForward feed_forward{w.linear(file + "mlp.dense_h_to_4h", 4 * d, d),
                                   summed(file + "mlp.dense_4h_to_h", 4 * d), Activation::gelu_tanh};
    Layer layer{{pre_norm("self_attn", first, attention, c.hidden_dropout),
                 pre_norm("feed_forward", second, feed_forward, c.hidden_dropout)}};
    if (c.apply_residual_connection_post_layernorm) {
      for (ResidualStep& step : layer.steps) std::swap(step.norm_input, step.sublayers[0].norm_before);
    }
    parts.stack.layers.push_back(std::move(layer));
  }
  parts.stack.final_norm = norm("transformer.ln_f");
  parts.output.weight = w.output(output, c.vocab_size, d);
  return assemble_decoder(w.finish(), std::move(parts), {.takes_position_ids = false});
}

}  // namespace

Family bloom_family() { return family<&BloomConfig::parse, build_bloom>({"bloom"}); }

}  // namespace heed
