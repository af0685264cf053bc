// The table and the parts of LLaMA-like models.
#include "models/llama_layout.h"

#include "heed/ops/activation.h"
#include "models/config_fields.h"
#include "models/rope_config.h"
#include "models/rows.h"

namespace heed {
namespace {

std::string llama_layer(std::int64_t i) { return "model.layers." + std::to_string(i) + "."; }

TensorTable llama_table(const Config& json, const LlamaShape& s) {
  TensorTable table;
  table.prefix = "model.";
  table.rows.push_back({"model.embed_tokens.weight", {s.vocab_size, s.width}, Init::embedding});
  if (s.tied) table.rows.back().tied.push_back("lm_head.weight");
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const std::string layer = llama_layer(i), attention = layer + "self_attn.";
    add_linear(table, attention + "q_proj", s.heads * s.head_dim, s.width, s.qkv_bias);
    add_linear(table, attention + "k_proj", s.kv_heads * s.head_dim, s.width, s.qkv_bias);
    add_linear(table, attention + "v_proj", s.kv_heads * s.head_dim, s.width, s.qkv_bias);
    add_linear(table, attention + "o_proj", s.width, s.heads * s.head_dim, s.out_bias);
    add_linear(table, layer + "mlp.gate_proj", s.inner, s.width, s.mlp_bias);
    add_linear(table, layer + "mlp.up_proj", s.inner, s.width, s.mlp_bias);
    add_linear(table, layer + "mlp.down_proj", s.width, s.inner, s.mlp_bias);
    add_norm(table, layer + "input_layernorm", s.width, false);
    add_norm(table, layer + "post_attention_layernorm", s.width, false);
    table.computed.push_back(attention + "rotary_emb.inv_freq");  // in early files
  }
  add_norm(table, "model.norm", s.width, false);
  if (!s.tied) add_output(table, json, "lm_head.weight", {s.vocab_size, s.width});
  return table;
}

class LlamaLike final : public AssembledDecoder {
 public:
  LlamaLike(ModelFiles files, LlamaShapeOf shape_of);
};

LlamaLike::LlamaLike(ModelFiles files, LlamaShapeOf shape_of) : AssembledDecoder(std::move(files)) {
  const LlamaShape s = shape_of(config());
  const auto norm = [&](const std::string& name) {
    return norm_part(weights(), name, NormKind::rms, s.norm_eps);
  };
  const auto linear = [&](const std::string& name) { return linear_part(weights(), name); };
  parts_.embedding.table = weights()["model.embed_tokens.weight"];
  parts_.embedding.padding_id = s.padding;
  parts_.positions = std::make_shared<RotaryPositions>(s.rotary);
  rows_are_independent_ = !follows_length(s.rotary);
  trained_positions_ = s.positions;
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const std::string file = llama_layer(i), name = parts_.stack.name + ".layers." + std::to_string(i);
    parts_.stack.layers.push_back({.name = name,
                                   .attn_norm = norm(file + "input_layernorm"),
                                   .self_attn = {.name = name + ".self_attn",
                                                 .q = linear(file + "self_attn.q_proj"),
                                                 .k = linear(file + "self_attn.k_proj"),
                                                 .v = linear(file + "self_attn.v_proj"),
                                                 .out = linear(file + "self_attn.o_proj"),
                                                 .heads = s.heads,
                                                 .kv_heads = s.kv_heads,
                                                 .dropout = s.attention_dropout,
                                                 .positions = parts_.positions.get(),
                                                 .window = s.windows[static_cast<std::size_t>(i)]},
                                   .feed_forward_norm = norm(file + "post_attention_layernorm"),
                                   .feed_forward = {.up = linear(file + "mlp.up_proj"),
                                                    .down = linear(file + "mlp.down_proj"),
                                                    .activation = activation_named(s.activation),
                                                    .gate = linear(file + "mlp.gate_proj")}});
  }
  parts_.stack.final_norm = norm("model.norm");
  parts_.output.weight = weights().find("lm_head.weight");
}

}  // namespace

LlamaShape LlamaShape::parse(const Config& json, std::int64_t kv_heads_default) {
  LlamaShape s;
  s.vocab_size = json.required_positive_integer("vocab_size");
  s.width = json.required_positive_integer("hidden_size");
  s.inner = json.required_positive_integer("intermediate_size");
  s.layers = layer_count(json, "num_hidden_layers", json.required_positive_integer("num_hidden_layers"));
  s.heads = json.required_positive_integer("num_attention_heads");
  s.kv_heads = integer_or_null(json, "num_key_value_heads", s.heads,
                               kv_heads_default > 0 ? kv_heads_default : s.heads);
  if (s.heads % s.kv_heads != 0)
    json.fail("num_key_value_heads", "a divisor of num_attention_heads " + std::to_string(s.heads));
  if (!json.has("head_dim")) check_heads(json, "num_attention_heads", s.width, s.heads);
  s.head_dim = json.positive_integer("head_dim", s.width / s.heads);
  s.activation = json.string("hidden_act", "silu");
  activation_setting(json, "hidden_act", s.activation);
  s.norm_eps = norm_epsilon(json, "rms_norm_eps", 1e-6);
  s.attention_dropout = probability(json, "attention_dropout", 0);
  s.tied = json.boolean("tie_word_embeddings", false);
  s.padding = padding_setting(json, std::nullopt, s.vocab_size);
  s.windows.assign(static_cast<std::size_t>(s.layers), 0);
  json.ignore({"initializer_range", "pretraining_tp", "is_decoder"});
  return s;
}

std::unique_ptr<DecoderModel> load_llama_like(const std::filesystem::path& directory, DType dtype,
                                              LlamaShapeOf shape_of) {
  const auto table = [&](const Config& json) { return llama_table(json, shape_of(json)); };
  return std::make_unique<LlamaLike>(ModelFiles::load(directory, dtype, table), shape_of);
}

std::unique_ptr<DecoderModel> make_llama_like(const Config& config, Generator& generator,
                                              LlamaShapeOf shape_of) {
  const auto table = [&](const Config& json) { return llama_table(json, shape_of(json)); };
  return std::make_unique<LlamaLike>(ModelFiles::make(config, generator, table), shape_of);
}

}  // namespace heed
