// The GPT-2 family: its config, and the model built from parts.
#include <cmath>

#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/ops/activation.h"
#include "models/config_fields.h"
#include "models/decoder.h"
#include "models/families.h"
#include "models/families/towers.h"
#include "models/gguf_model.h"

namespace heed {
namespace {

struct Gpt2Config {
  std::int64_t vocab_size, n_positions, n_embd, n_layer, n_head, n_inner;
  std::string activation_function;
  double resid_pdrop, embd_pdrop, attn_pdrop, layer_norm_epsilon, initializer_range;
  bool scale_attn_weights, scale_attn_by_inverse_layer_idx, tie_word_embeddings, headless;

  /// What a decoder alone has, and one with cross-attention.
  static Gpt2Config parse_settings(const Config& json);
  static Gpt2Config parse(const Config& json);
};

Gpt2Config Gpt2Config::parse_settings(const Config& json) {
  Gpt2Config c;
  const char* heads = common_or_own(json, "num_attention_heads", "n_head");
  c.vocab_size = json.positive_integer("vocab_size", 50257);
  c.n_positions = json.positive_integer(common_or_own(json, "max_position_embeddings", "n_positions"), 1024);
  c.n_embd = json.positive_integer(common_or_own(json, "hidden_size", "n_embd"), 768);
  c.n_layer = layer_count(json, common_or_own(json, "num_hidden_layers", "n_layer"), 12);
  c.n_head = json.positive_integer(heads, 12);
  c.n_inner = json.positive_integer("n_inner", 4 * c.n_embd);
  c.activation_function = json.string("activation_function", "gelu_new");
  c.resid_pdrop = probability(json, "resid_pdrop", 0.1);
  c.embd_pdrop = probability(json, "embd_pdrop", 0.1);
  c.attn_pdrop = probability(json, "attn_pdrop", 0.1);
  c.layer_norm_epsilon = norm_epsilon(json, "layer_norm_epsilon", 1e-5);
  c.initializer_range = positive_number(json, "initializer_range", 0.02);
  c.scale_attn_weights = json.boolean("scale_attn_weights", true);
  c.scale_attn_by_inverse_layer_idx = json.boolean("scale_attn_by_inverse_layer_idx", false);
  c.tie_word_embeddings = json.boolean("tie_word_embeddings", true);
  check_heads(json, heads, c.n_embd, c.n_head);
  activation_setting(json, "activation_function", c.activation_function);
  // The order of rounding in half precision, and what only other heads than the language model's read.
  json.ignore({"reorder_and_upcast_attn", "n_ctx", "n_special", "predict_special_tokens",
               "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
               "summary_use_proj", "is_decoder", "is_encoder_decoder"});
  c.headless = false;
  return c;
}

Gpt2Config Gpt2Config::parse(const Config& json) {
  Gpt2Config c = parse_settings(json);
  if (json.boolean("add_cross_attention", false)) json.fail("add_cross_attention", "false");
  c.headless = is_headless(json);
  return c;
}

// Names begin with `prefix`.
DecoderParts take_gpt2(const Gpt2Config& c, const std::string& prefix, bool crosses, WeightBuilder& w) {
  const auto norm = [&](const std::string& name) {
    return w.layer_norm(name, c.n_embd, c.layer_norm_epsilon);
  };
  // Conv1D keeps its matrix as [in, out].
  const auto conv1d = [&](const std::string& name, std::int64_t in, std::int64_t out, double init_std = 0) {
    return Linear{w.take({.name = name + ".weight",
                          .shape = {in, out},
                          .init_std = init_std,
                          .target = AdapterTarget::linear_in_out}),
                  w.bias(name + ".bias", out), WeightLayout::in_out};
  };
  // Radford et al. 2019: what adds to the residual stream is scaled by the number of its additions.
  const double residual = c.initializer_range / std::sqrt(2.0 * static_cast<double>(c.n_layer));
  const OutputMap output{prefix + "lm_head.weight", c.tie_word_embeddings, c.headless};
  const std::int64_t d = c.n_embd, head_dim = d / c.n_head;
  const std::string body = prefix + "transformer.";
  DecoderParts parts;
  parts.embeddings.tokens.table = w.embedding(body + "wte.weight", c.vocab_size, d, {}, output);
  parts.embeddings.positions = AdditivePositions(
      w.tensor({.name = body + "wpe.weight", .shape = {c.n_positions, d}, .init = Init::embedding}));
  parts.embeddings.dropout = c.embd_pdrop;
  for (std::int64_t i = 0; i < c.n_layer; ++i) {
    const std::string file = body + "h." + std::to_string(i) + ".";
    double scale = c.scale_attn_weights ? 1.0 / std::sqrt(static_cast<double>(head_dim)) : 1.0;
    if (c.scale_attn_by_inverse_layer_idx) scale /= static_cast<double>(i + 1);
    const Norm first = norm(file + "ln_1");
    const Linear qkv = conv1d(file + "attn.c_attn", d, 3 * d);
    const SelfAttention attention{{.out = conv1d(file + "attn.c_proj", d, d, residual),
                                   .heads = c.n_head,
                                   .kv_heads = c.n_head,
                                   .dropout = c.attn_pdrop,
                                   .scale = scale,
                                   .fused = qkv_by_kind(qkv, c.n_head, c.n_head, head_dim)}};
    Layer layer{{pre_norm("self_attn", first, attention, c.resid_pdrop)}};
    if (crosses) {
      const Norm between = norm(file + "ln_cross_attn");
      const Linear kv = conv1d(file + "crossattention.c_attn", d, 2 * d);
      const CrossAttention cross{{.q = conv1d(file + "crossattention.q_attn", d, d),
                                  .out = conv1d(file + "crossattention.c_proj", d, d, residual),
                                  .heads = c.n_head,
                                  .kv_heads = c.n_head,
                                  .dropout = c.attn_pdrop,
                                  .scale = scale,
                                  .fused = kv_by_kind(kv, c.n_head, head_dim)}};
      layer.steps.push_back(pre_norm("cross_attn", between, cross, c.resid_pdrop));
    }
    const Norm second = norm(file + "ln_2");
    const FeedForward feed_forward{conv1d(file + "mlp.c_fc", d, c.n_inner),
                                   conv1d(file + "mlp.c_proj", c.n_inner, d, residual),
                                   activation_named(c.activation_function)};
    layer.steps.push_back(pre_norm("feed_forward", second, feed_forward, c.resid_pdrop));
    parts.stack.layers.push_back(std::move(layer));
    for (const char* part : {"attn.", "crossattention."}) {  // the causal mask, in early files
      w.ignore(file + part + "bias");
      w.ignore(file + part + "masked_bias");
    }
  }
  parts.stack.final_norm = norm(body + "ln_f");
  parts.output.weight = w.output(output, c.vocab_size, d);
  return parts;
}

GgufModel gpt2_gguf(const Gpt2Config& c, const std::string& where) {
  GgufModel to{.architecture = "gpt2", .values = {}, .heads = c.n_head, .kv_heads = c.n_head};
  to.keep(c.activation_function == "gelu_new", where, "activation_function", "gelu_new");
  to.keep(c.scale_attn_weights, where, "scale_attn_weights", "true");
  to.keep(!c.scale_attn_by_inverse_layer_idx, where, "scale_attn_by_inverse_layer_idx", "false");
  to.keep(!c.headless, where, "architectures", "a model with its output map");
  to.values.integer(to.key("block_count"), c.n_layer);
  to.values.integer(to.key("context_length"), c.n_positions);
  to.values.integer(to.key("embedding_length"), c.n_embd);
  to.values.integer(to.key("feed_forward_length"), c.n_inner);
  to.values.integer(to.key("attention.head_count"), c.n_head);
  to.values.number(to.key("attention.layer_norm_epsilon"), c.layer_norm_epsilon);
  return to;
}

std::unique_ptr<Model> build_gpt2(const Gpt2Config& c, WeightBuilder& w) {
  w.set_prefix("transformer.");
  DecoderParts parts = take_gpt2(c, "", false, w);
  ModelContents files = w.finish();
  files.gguf = [c, where = files.config.where()] { return gpt2_gguf(c, where); };
  return assemble_decoder(std::move(files), std::move(parts),
                          {.max_positions = c.n_positions, .trained_positions = c.n_positions});
}

}  // namespace

TextTower gpt2_tower(const Config& json) {
  const Gpt2Config c = Gpt2Config::parse_settings(json);
  if (!json.boolean("add_cross_attention", false)) json.fail("add_cross_attention", "true");
  return {.vocab_size = c.vocab_size,
          .d_model = c.n_embd,
          .max_positions = c.n_positions,
          .take = [c](const std::string& prefix, std::int64_t,
                      WeightBuilder& w) { return take_gpt2(c, prefix, true, w); },
          .eos = 50256,
          .start = 50256};
}

Family gpt2_family() { return family<&Gpt2Config::parse, build_gpt2>({"gpt2"}); }

}  // namespace heed
