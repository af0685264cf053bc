// The MPT family: its config, and the model built from parts.
#include <cmath>

#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "models/config_fields.h"
#include "models/decoder.h"
#include "models/families.h"

namespace heed {
namespace {

// MptForCausalLM has the slopes of 8 whatever alibi_bias_max says.
constexpr double kAlibiBiasMax = 8;

struct MptConfig {
  std::int64_t vocab_size, d_model, n_layers, n_heads;
  double layer_norm_epsilon, attn_pdrop = 0;
  std::optional<double> clip_qkv, softmax_scale;
  bool tie_word_embeddings, headless;

  static MptConfig parse(const Config& json);

 private:
  void read_attention(const Config& json);
};

void MptConfig::read_attention(const Config& json) {
  attn_pdrop = probability(json, "attn_pdrop", 0);
  clip_qkv = json.optional_number("clip_qkv");
  if (clip_qkv && !(*clip_qkv >= 0)) json.fail("clip_qkv", "a number of at least 0");
  if (clip_qkv == 0.0) clip_qkv.reset();
  softmax_scale = json.optional_number("softmax_scale");
  // What MptForCausalLM would not do although it is asked for.
  if (json.string("attn_type", "multihead_attention") != "multihead_attention")
    json.fail("attn_type", "multihead_attention");
  if (!json.boolean("alibi", true)) json.fail("alibi", "true (learned positions are not supported)");
  for (const char* key : {"prefix_lm", "qk_ln", "attn_uses_sequence_id"}) {
    if (json.boolean(key, false)) json.fail(key, "false");
  }
  json.ignore({"alibi_bias_max", "attn_impl"});  // the slopes are those of kAlibiBiasMax
  ignore_common_keys(json);
}

MptConfig MptConfig::parse(const Config& json) {
  MptConfig c;
  const char* heads = common_or_own(json, "num_attention_heads", "n_heads");
  c.vocab_size = json.positive_integer("vocab_size", 50368);
  c.d_model = json.positive_integer(common_or_own(json, "hidden_size", "d_model"), 2048);
  c.n_layers = layer_count(json, common_or_own(json, "num_hidden_layers", "n_layers"), 24);
  c.n_heads = json.positive_integer(heads, 16);
  c.layer_norm_epsilon = norm_epsilon(json, "layer_norm_epsilon", 1e-5);
  c.tie_word_embeddings = json.boolean("tie_word_embeddings", true);
  if (const auto attention = json.optional_sub("attn_config")) c.read_attention(*attention);
  check_heads(json, heads, c.d_model, c.n_heads);
  // Settings of training and of other implementations, which MptForCausalLM does not read.
  json.ignore({"emb_pdrop", "embedding_fraction", "expansion_ratio", "init_config", "init_device",
               "initializer_range", "learned_pos_emb", "logit_scale", "max_seq_len", "no_bias", "norm_type",
               "resid_pdrop", "tokenizer_name", "verbose"});
  c.headless = is_headless(json);
  return c;
}

std::unique_ptr<Model> build_mpt(const MptConfig& c, WeightBuilder& w) {
  const std::int64_t d = c.d_model;
  const auto norm = [&](const std::string& name) {
    return w.layer_norm(name, d, c.layer_norm_epsilon, false);
  };
  const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    return w.linear(name, out, in, false);
  };
  const OutputMap output{"lm_head.weight", c.tie_word_embeddings, c.headless};
  w.set_prefix("transformer.");
  DecoderParts parts;
  parts.embeddings.tokens.table = w.embedding("transformer.wte.weight", c.vocab_size, d, {}, output);
  const auto alibi = std::make_shared<AlibiPositions>(alibi_slopes(c.n_heads, kAlibiBiasMax));
  for (std::int64_t i = 0; i < c.n_layers; ++i) {
    const std::string file = "transformer.blocks." + std::to_string(i) + ".";
    const Norm first = norm(file + "norm_1");
    FusedQkv qkv = qkv_by_kind(linear(file + "attn.Wqkv", 3 * d, d), c.n_heads, c.n_heads, d / c.n_heads);
    qkv.clip = c.clip_qkv;
    const SelfAttention attention{{.out = linear(file + "attn.out_proj", d, d),
                                   .heads = c.n_heads,
                                   .kv_heads = c.n_heads,
                                   .dropout = c.attn_pdrop,
                                   .bias = alibi,
                                   .scale = c.softmax_scale,
                                   .fused = qkv}};
    const Norm second = norm(file + "norm_2");
    const FeedForward feed_forward{linear(file + "ffn.up_proj", 4 * d, d),
                                   linear(file + "ffn.down_proj", d, 4 * d), Activation::gelu};
    parts.stack.layers.push_back({{pre_norm("self_attn", first, attention, c.attn_pdrop),
                                   pre_norm("feed_forward", second, feed_forward, c.attn_pdrop)}});
  }
  parts.stack.final_norm = norm("transformer.norm_f");
  parts.output.weight = w.output(output, c.vocab_size, d);
  return assemble_decoder(w.finish(), std::move(parts), {.takes_position_ids = false});
}

}  // namespace

Family mpt_family() { return family<&MptConfig::parse, build_mpt>({"mpt"}); }

}  // namespace heed
