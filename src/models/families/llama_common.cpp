// The settings and the parts of LLaMA and its descendants.
#include "models/families/llama_common.h"

#include "heed/nn/attention.h"
#include "heed/ops/activation.h"
#include "models/config_fields.h"

namespace heed {
namespace {

constexpr std::int64_t kMostExperts = 65536;  // of all layers: each has tensors before a file is looked at

Experts experts_part(const LlamaConfig& c, WeightBuilder& w, const std::string& layer) {
  const ExpertsConfig& e = c.experts;
  const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    return w.linear(layer + e.block + name, out, in, false);
  };
  Experts part{.router = linear(".gate", e.count, c.d_model),
               .experts = {},
               .chosen = e.chosen,
               .normalize = e.normalize};
  for (std::int64_t i = 0; i < e.count; ++i) {
    const std::string expert = ".experts." + std::to_string(i) + ".";
    const Linear gate = linear(expert + e.gate, e.d_ff, c.d_model);
    part.experts.push_back({.up = linear(expert + e.up, e.d_ff, c.d_model),
                            .down = linear(expert + e.down, c.d_model, e.d_ff),
                            .activation = activation_named(c.activation),
                            .gate = gate});
  }
  return part;
}

Part llama_feed_forward(const LlamaConfig& c, WeightBuilder& w, const std::string& layer, std::int64_t i) {
  if (c.experts.in_layer(i)) return experts_part(c, w, layer);
  const auto linear = [&](const char* name, std::int64_t out, std::int64_t in) {
    return w.linear(layer + "mlp." + name, out, in, c.mlp_bias);
  };
  FeedForward part;
  if (c.fused_projections) {
    part.up = linear("gate_up_proj", 2 * c.d_ff, c.d_model);
  } else {
    part.gate = linear("gate_proj", c.d_ff, c.d_model);
    part.up = linear("up_proj", c.d_ff, c.d_model);
  }
  part.down = linear("down_proj", c.d_model, c.d_ff);
  part.activation = activation_named(c.activation);
  part.fused_gate = c.fused_projections;
  return part;
}

Norm llama_norm(const LlamaConfig& c, WeightBuilder& w, const std::string& name, std::int64_t dim) {
  return w.rms_norm(name, dim, c.norm_eps, c.norm_offset);
}

MultiHeadAttention llama_attention(const LlamaConfig& c, WeightBuilder& w, const std::string& file) {
  const std::int64_t d_query = c.heads * c.head_dim, d_key = c.kv_heads * c.head_dim;
  MultiHeadAttention part{.heads = c.heads,
                          .kv_heads = c.kv_heads,
                          .dropout = c.attention_dropout,
                          .scale = c.attention_scale,
                          .score_cap = c.score_cap};
  const auto linear = [&](const char* name, std::int64_t out) {
    return w.linear(file + name, out, c.d_model, c.qkv_bias);
  };
  if (c.fused_projections) {
    part.fused = qkv_by_kind(linear("qkv_proj", d_query + 2 * d_key), c.heads, c.kv_heads, c.head_dim);
  } else {
    part.q = linear("q_proj", d_query);
    part.k = linear("k_proj", d_key);
    part.v = linear("v_proj", d_key);
  }
  part.out = w.linear(file + "o_proj", c.d_model, d_query, c.out_bias);
  if (c.qk_norm) {
    part.q_norm = llama_norm(c, w, file + "q_norm", c.qk_norm_joins_heads ? d_query : c.head_dim);
    part.k_norm = llama_norm(c, w, file + "k_norm", c.qk_norm_joins_heads ? d_key : c.head_dim);
  }
  w.ignore(file + "rotary_emb.inv_freq");  // in early files
  return part;
}

// A sublayer with its norms before and after it; an empty name: there is none.
ResidualStep llama_step(const LlamaConfig& c, WeightBuilder& w, const char* name, Part part,
                        const std::string& before, const std::string& after) {
  Sublayer sublayer{
      .name = name, .part = std::move(part), .multiplier = c.residual_scale, .dropout = c.dropout};
  if (!before.empty()) sublayer.norm_before = llama_norm(c, w, before, c.d_model);
  if (!after.empty()) sublayer.norm_after = llama_norm(c, w, after, c.d_model);
  return {.sublayers = {std::move(sublayer)}};
}

// What awq may scale in a layer: what norms give to attention and feed-forward, values, and what the gate of
// the feed-forward lets through.
std::vector<ScaledGroup> scaled_groups(const LlamaConfig& c, const std::string& layer) {
  const auto map = [&](const char* name) { return layer + name + ".weight"; };
  const bool fused = c.fused_projections;
  std::vector<std::string> qkv = {map("self_attn.q_proj"), map("self_attn.k_proj"), map("self_attn.v_proj")},
                           inner = {map("mlp.gate_proj"), map("mlp.up_proj")};
  if (fused) {
    qkv = {map("self_attn.qkv_proj")};
    inner = {map("mlp.gate_up_proj")};
  }
  std::vector<ScaledGroup> groups;
  if (c.norm_before) {
    const char* before = c.norm_after ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    groups.push_back({.maps = qkv, .source = map("input_layernorm"), .norm_offset = c.norm_offset});
    groups.push_back({.maps = inner, .source = map(before), .norm_offset = c.norm_offset});
  } else {
    groups.push_back({.maps = qkv});
    groups.push_back({.maps = inner});
  }
  groups.push_back({.maps = {map("self_attn.o_proj")},
                    .source = qkv.back(),
                    .first_row = fused ? (c.heads + c.kv_heads) * c.head_dim : 0,
                    .repeats = c.heads / c.kv_heads,
                    .head_dim = c.head_dim});
  groups.push_back({.maps = {map("mlp.down_proj")}, .source = inner.back(), .first_row = fused ? c.d_ff : 0});
  return groups;
}

}  // namespace

std::unique_ptr<Model> build_llama(const LlamaConfig& c, WeightBuilder& w) {
  const OutputMap output{"lm_head.weight", c.tied, c.headless};
  w.set_prefix("model.");
  DecoderParts parts;
  parts.embeddings.tokens = {
      w.embedding("model.embed_tokens.weight", c.vocab_size, c.d_model, c.padding, output), c.embedding_scale,
      c.padding};
  parts.embeddings.given_scale = c.given_scale;
  const auto rotary = c.rotary.dim > 0 ? std::make_shared<RotaryPositions>(c.rotary) : nullptr;
  const auto window_rotary = c.window_rotary ? std::make_shared<RotaryPositions>(*c.window_rotary) : rotary;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string file = "model.layers." + std::to_string(i) + ".";
    const auto place = static_cast<std::size_t>(i);
    const auto norm = [&](bool exists, const char* name) { return exists ? file + name : std::string(); };
    SelfAttention self{llama_attention(c, w, file + "self_attn.")};
    self.attention.window = c.windows[place];
    self.attention.rotary = c.windows[place] > 0 ? window_rotary : rotary;
    if (!c.unrotated.empty() && c.unrotated[place]) self.attention.rotary = nullptr;
    const Part feed_forward = llama_feed_forward(c, w, file, i);
    const ResidualStep first = llama_step(c, w, "self_attn", self, norm(c.norm_before, "input_layernorm"),
                                          norm(c.norm_after, "post_attention_layernorm"));
    // Without norms after the sublayers, the one before the feed-forward is named after the attention.
    const char* before = c.norm_after ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    parts.stack.layers.push_back(
        {{first, llama_step(c, w, "feed_forward", feed_forward, norm(c.norm_before || !c.norm_after, before),
                            norm(c.norm_after, "post_feedforward_layernorm"))}});
  }
  parts.stack.final_norm = llama_norm(c, w, "model.norm", c.d_model);
  parts.output_scale = c.logit_scale;
  parts.logit_cap = c.logit_cap;
  parts.output.weight = w.output(output, c.vocab_size, c.d_model);
  parts.recompute_beyond = c.recompute_beyond;
  if (c.experts.loss_coefficient)
    parts.load_balance = {c.experts.chosen, *c.experts.loss_coefficient, c.padding};
  ModelContents files = w.finish();
  for (std::int64_t i = 0; i < c.layers && c.experts.layers.empty(); ++i)
    files.scaled_layers.push_back(scaled_groups(c, "model.layers." + std::to_string(i) + "."));
  files.gguf = [c, family = files.config.required_string("model_type"), where = files.config.where()] {
    return llama_gguf(c, family, where);
  };
  return assemble_decoder(std::move(files), std::move(parts),
                          {.trained_positions = c.positions,
                           .rows_are_independent = !follows_length(c.rotary) &&
                                                   !(c.window_rotary && follows_length(*c.window_rotary))});
}

ExpertsConfig ExpertsConfig::parse(const Config& json, std::int64_t layers, std::int64_t count_default,
                                   std::int64_t chosen_default) {
  ExpertsConfig c;
  const char* count = common_or_own(json, "num_local_experts", "num_experts");  // transformers 5, and before
  c.count = json.positive_integer(count, count_default);
  if (c.count > kMostExperts / layers)
    json.fail(count, "at most " + std::to_string(kMostExperts) + " experts in all layers");
  c.chosen = json.positive_integer("num_experts_per_tok", chosen_default);
  if (c.chosen > c.count)
    json.fail("num_experts_per_tok", "at most the " + std::to_string(c.count) + " experts there are");
  const double coefficient = json.number("router_aux_loss_coef", 0.001);
  if (json.boolean("output_router_logits", false)) c.loss_coefficient = coefficient;
  c.layers.assign(static_cast<std::size_t>(layers), true);
  return c;
}

LlamaConfig LlamaConfig::parse(const Config& json, const LlamaDefaults& defaults) {
  LlamaConfig c;
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.d_model = json.required_positive_integer("hidden_size");
  c.d_ff = json.required_positive_integer("intermediate_size");
  c.layers = layer_count(json, "num_hidden_layers", json.required_positive_integer("num_hidden_layers"));
  c.heads = json.required_positive_integer("num_attention_heads");
  c.kv_heads = integer_or_null(json, "num_key_value_heads", c.heads,
                               defaults.kv_heads > 0 ? defaults.kv_heads : c.heads);
  if (c.heads % c.kv_heads != 0)
    json.fail("num_key_value_heads", "a divisor of num_attention_heads " + std::to_string(c.heads));
  if (!json.has("head_dim")) check_heads(json, "num_attention_heads", c.d_model, c.heads);
  c.head_dim =
      json.positive_integer("head_dim", defaults.head_dim > 0 ? defaults.head_dim : c.d_model / c.heads);
  c.activation = json.string("hidden_act", "silu");
  activation_setting(json, "hidden_act", c.activation);
  c.norm_eps = norm_epsilon(json, "rms_norm_eps", defaults.norm_eps);
  c.attention_dropout = probability(json, "attention_dropout", 0);
  c.tied = json.boolean("tie_word_embeddings", defaults.tied);
  c.padding = padding_setting(json, defaults.padding, c.vocab_size);
  c.headless = is_headless(json);
  c.positions = json.positive_integer("max_position_embeddings", defaults.positions);
  c.rotary = rotary_options(json, c.head_dim, c.positions, defaults.rope);
  c.windows.assign(static_cast<std::size_t>(c.layers), 0);
  json.ignore({"initializer_range", "pretraining_tp", "is_decoder"});
  return c;
}

void LlamaConfig::read_biases(const Config& json) {
  qkv_bias = out_bias = json.boolean("attention_bias", false);
  mlp_bias = json.boolean("mlp_bias", false);
}

void LlamaConfig::read_layer_windows(const Config& json) {
  const std::int64_t first = json.integer("max_window_layers", 28);
  std::int64_t window = integer_or_null(json, "sliding_window", 0, 4096);
  if (!json.boolean("use_sliding_window", false)) window = 0;
  std::vector<bool> slides;
  for (std::int64_t i = 0; i < layers; ++i) slides.push_back(i >= first);
  set_windows(json, window, std::move(slides));
}

void LlamaConfig::set_windows(const Config& json, std::int64_t window, std::vector<bool> slides) {
  slides = sliding_layers(json, std::move(slides));
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (slides[i]) windows[i] = window;
  }
}

}  // namespace heed
