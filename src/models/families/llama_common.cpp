// The table and the parts of LLaMA and its descendants.
#include "models/families/llama_common.h"

#include "heed/nn/attention.h"
#include "heed/ops/activation.h"
#include "models/config_fields.h"
#include "models/families/rope_config.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

std::string llama_layer(std::int64_t i) { return "model.layers." + std::to_string(i) + "."; }

// The norms before and after a sublayer; an empty name: there is none.
struct NormNames {
  std::string before, after;
};
NormNames attention_norms(const LlamaConfig& c) {
  return {c.norm_before ? "input_layernorm" : "", c.norm_after ? "post_attention_layernorm" : ""};
}
// Without norms after the sublayers, the one before the feed-forward has the name of the place it is in.
NormNames feed_forward_norms(const LlamaConfig& c) {
  if (!c.norm_after) return {"post_attention_layernorm", ""};
  return {c.norm_before ? "pre_feedforward_layernorm" : "", "post_feedforward_layernorm"};
}

void add_llama_feed_forward(TensorTable& table, const std::string& layer, const LlamaConfig& c,
                            std::int64_t i) {
  if (c.experts.in_layer(i)) return add_experts(table, layer, c.d_model, c.experts);
  if (c.fused_projections) {
    add_linear(table, layer + "mlp.gate_up_proj", 2 * c.d_ff, c.d_model, c.mlp_bias);
  } else {
    add_linear(table, layer + "mlp.gate_proj", c.d_ff, c.d_model, c.mlp_bias);
    add_linear(table, layer + "mlp.up_proj", c.d_ff, c.d_model, c.mlp_bias);
  }
  add_linear(table, layer + "mlp.down_proj", c.d_model, c.d_ff, c.mlp_bias);
}

Part llama_feed_forward(const LlamaConfig& c, const Weights& weights, std::int64_t i) {
  const Activation activation = activation_named(c.activation);
  if (c.experts.in_layer(i)) return experts_part(weights, llama_layer(i), activation, c.experts);
  const std::string file = llama_layer(i) + "mlp.";
  FeedForward part{.up = linear_part(weights, file + (c.fused_projections ? "gate_up_proj" : "up_proj")),
                   .down = linear_part(weights, file + "down_proj"),
                   .activation = activation,
                   .fused_gate = c.fused_projections};
  if (!c.fused_projections) part.gate = linear_part(weights, file + "gate_proj");
  return part;
}

}  // namespace

TensorTable llama_table(const LlamaConfig& c, const HasTensor&) {
  TensorTable table;
  const auto add_rms_norm = [&](const std::string& name, std::int64_t dim) {
    add_norm(table, name, dim, false, c.norm_offset == 0 ? Init::ones : Init::zeros);
  };
  table.prefix = "model.";
  add_embedding(table, "model.embed_tokens.weight", c.vocab_size, c.d_model, c.padding);
  if (c.tied) table.rows.back().tied.push_back("lm_head.weight");
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = llama_layer(i), attention = layer + "self_attn.";
    if (c.fused_projections) {
      add_linear(table, attention + "qkv_proj", (c.heads + 2 * c.kv_heads) * c.head_dim, c.d_model,
                 c.qkv_bias);
    } else {
      add_linear(table, attention + "q_proj", c.heads * c.head_dim, c.d_model, c.qkv_bias);
      add_linear(table, attention + "k_proj", c.kv_heads * c.head_dim, c.d_model, c.qkv_bias);
      add_linear(table, attention + "v_proj", c.kv_heads * c.head_dim, c.d_model, c.qkv_bias);
    }
    add_linear(table, attention + "o_proj", c.d_model, c.heads * c.head_dim, c.out_bias);
    if (c.qk_norm) {
      add_rms_norm(attention + "q_norm", c.qk_norm_joins_heads ? c.heads * c.head_dim : c.head_dim);
      add_rms_norm(attention + "k_norm", c.qk_norm_joins_heads ? c.kv_heads * c.head_dim : c.head_dim);
    }
    add_llama_feed_forward(table, layer, c, i);
    for (const NormNames& names : {attention_norms(c), feed_forward_norms(c)}) {
      if (!names.before.empty()) add_rms_norm(layer + names.before, c.d_model);
      if (!names.after.empty()) add_rms_norm(layer + names.after, c.d_model);
    }
    table.ignored_names.push_back(attention + "rotary_emb.inv_freq");  // in early files
  }
  add_rms_norm("model.norm", c.d_model);
  if (!c.tied) add_output(table, c.headless, "lm_head.weight", {c.vocab_size, c.d_model});
  return table;
}

std::unique_ptr<Model> build_llama(const LlamaConfig& c, ModelFiles files) {
  const Weights& weights = files.weights;
  const auto norm = [&](const std::string& name) {
    Norm part = norm_part(weights, name, NormKind::rms, c.norm_eps);
    part.offset = c.norm_offset;
    return part;
  };
  const auto linear = [&](const std::string& name) { return linear_part(weights, name); };
  DecoderParts parts;
  parts.embeddings.tokens = {weights["model.embed_tokens.weight"], c.embedding_scale, c.padding};
  const auto rotary = c.rotary.dim > 0 ? std::make_shared<RotaryPositions>(c.rotary) : nullptr;
  const auto window_rotary = c.window_rotary ? std::make_shared<RotaryPositions>(*c.window_rotary) : rotary;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string file = llama_layer(i);
    const auto place = static_cast<std::size_t>(i);
    const auto step = [&](const char* name, Part part, const NormNames& names) {
      Sublayer sublayer{
          .name = name, .part = std::move(part), .multiplier = c.residual_scale, .dropout = c.dropout};
      if (!names.before.empty()) sublayer.norm_before = norm(file + names.before);
      if (!names.after.empty()) sublayer.norm_after = norm(file + names.after);
      return ResidualStep{.sublayers = {std::move(sublayer)}};
    };
    SelfAttention attention{{.out = linear(file + "self_attn.o_proj"),
                             .heads = c.heads,
                             .kv_heads = c.kv_heads,
                             .dropout = c.attention_dropout,
                             .rotary = c.windows[place] > 0 ? window_rotary : rotary,
                             .scale = c.attention_scale,
                             .score_cap = c.score_cap,
                             .window = c.windows[place]}};
    if (c.fused_projections) {
      attention.attention.fused =
          qkv_by_kind(linear(file + "self_attn.qkv_proj"), c.heads, c.kv_heads, c.head_dim);
    } else {
      attention.attention.q = linear(file + "self_attn.q_proj");
      attention.attention.k = linear(file + "self_attn.k_proj");
      attention.attention.v = linear(file + "self_attn.v_proj");
    }
    if (!c.unrotated.empty() && c.unrotated[place]) attention.attention.rotary = nullptr;
    if (c.qk_norm) {
      attention.attention.q_norm = norm(file + "self_attn.q_norm");
      attention.attention.k_norm = norm(file + "self_attn.k_norm");
    }
    parts.stack.layers.push_back(
        {{step("self_attn", attention, attention_norms(c)),
          step("feed_forward", llama_feed_forward(c, weights, i), feed_forward_norms(c))}});
  }
  parts.stack.final_norm = norm("model.norm");
  parts.output_scale = c.logit_scale;
  parts.logit_cap = c.logit_cap;
  parts.output.weight = weights.find("lm_head.weight");
  parts.recompute_beyond = c.recompute_beyond;
  if (c.experts.loss_coefficient)
    parts.load_balance = {c.experts.chosen, *c.experts.loss_coefficient, c.padding};
  return assemble_decoder(std::move(files), std::move(parts),
                          {.trained_positions = c.positions,
                           .rows_are_independent = !follows_length(c.rotary) &&
                                                   !(c.window_rotary && follows_length(*c.window_rotary))});
}

LlamaConfig LlamaConfig::parse(const Config& json, std::int64_t kv_heads_default) {
  LlamaConfig c;
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.d_model = json.required_positive_integer("hidden_size");
  c.d_ff = json.required_positive_integer("intermediate_size");
  c.layers = layer_count(json, "num_hidden_layers", json.required_positive_integer("num_hidden_layers"));
  c.heads = json.required_positive_integer("num_attention_heads");
  c.kv_heads = integer_or_null(json, "num_key_value_heads", c.heads,
                               kv_heads_default > 0 ? kv_heads_default : c.heads);
  if (c.heads % c.kv_heads != 0)
    json.fail("num_key_value_heads", "a divisor of num_attention_heads " + std::to_string(c.heads));
  if (!json.has("head_dim")) check_heads(json, "num_attention_heads", c.d_model, c.heads);
  c.head_dim = json.positive_integer("head_dim", c.d_model / c.heads);
  c.activation = json.string("hidden_act", "silu");
  activation_setting(json, "hidden_act", c.activation);
  c.norm_eps = norm_epsilon(json, "rms_norm_eps", 1e-6);
  c.attention_dropout = probability(json, "attention_dropout", 0);
  c.tied = json.boolean("tie_word_embeddings", false);
  c.padding = padding_setting(json, std::nullopt, c.vocab_size);
  c.headless = is_headless(json);
  c.windows.assign(static_cast<std::size_t>(c.layers), 0);
  json.ignore({"initializer_range", "pretraining_tp", "is_decoder"});
  return c;
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
