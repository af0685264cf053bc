// ModernBERT (Warner et al. 2024): pre-norm layers without biases, gated feed-forward layers, rotary
// positions, and attention that is local in most layers.
#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/nn/positions.h"
#include "models/config_fields.h"
#include "models/encoder.h"
#include "models/families.h"

namespace heed {
namespace {

struct ModernBertConfig : EncoderConfig {
  std::vector<bool> is_local = {};  // per layer; else attention is global
  std::int64_t reach = 0;           // tokens to each side that a local layer attends to
  RotaryOptions global_rotary = {}, local_rotary = {};
  bool attention_bias = false, mlp_bias = false, norm_bias = false, decoder_bias = true,
       classifier_bias = false;
  Activation head_activation = Activation::gelu;
  double mlp_dropout = 0.0;
};

void parse_layers(const Config& json, ModernBertConfig& c) {
  const std::int64_t every = json.positive_integer("global_attn_every_n_layers", 3);
  for (std::int64_t i = 0; i < c.layers; ++i) c.is_local.push_back(i % every != 0);
  c.is_local = sliding_layers(json, std::move(c.is_local));
  c.reach = json.positive_integer("local_attention", 128) / 2;
  if (json.has("rope_scaling")) json.fail("rope_scaling", "none");
  const auto rotary = [&](const char* theta, const char* kind, double default_value) {
    return rotary_options(
        json, c.d_model / c.heads, *c.max_positions,
        {.theta = theta, .layer_type = kind, .scaled = false, .theta_default = default_value});
  };
  c.global_rotary = rotary("global_rope_theta", "full_attention", 160000);
  c.local_rotary = rotary("local_rope_theta", "sliding_attention", 10000);
}

ModernBertConfig parse_modernbert(const Config& json) {
  ModernBertConfig c{EncoderConfig::parse_common(json)};
  c.vocab_size = json.positive_integer("vocab_size", 50368);
  c.d_model = c.d_embedding = json.positive_integer("hidden_size", 768);
  c.layers = layer_count(json, "num_hidden_layers", 22);
  c.heads = json.positive_integer("num_attention_heads", 12);
  c.d_ff = json.positive_integer("intermediate_size", 1152);
  c.max_positions = json.positive_integer("max_position_embeddings", 8192);
  c.activation = activation_setting(json, "hidden_activation", json.string("hidden_activation", "gelu"));
  c.norm_eps = norm_epsilon(json, "norm_eps", 1e-5);
  c.dropout = probability(json, "embedding_dropout", 0.0);
  c.attention_dropout = probability(json, "attention_dropout", 0.0);
  c.mlp_dropout = probability(json, "mlp_dropout", 0.0);
  c.head_dropout = probability(json, "classifier_dropout", 0.0);
  c.padding = padding_setting(json, 50283, c.vocab_size);
  c.norm_bias = json.boolean("norm_bias", false);
  c.attention_bias = json.boolean("attention_bias", false);
  c.mlp_bias = json.boolean("mlp_bias", false);
  c.decoder_bias = json.boolean("decoder_bias", true);
  c.classifier_bias = json.boolean("classifier_bias", false);
  c.head_activation =
      activation_setting(json, "classifier_activation", json.string("classifier_activation", "gelu"));
  const std::string pooling = json.string("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean") json.fail("classifier_pooling", "cls or mean");
  if (pooling == "mean") c.sequence_input = SequenceInput::mean;
  check_heads(json, "num_attention_heads", c.d_model, c.heads);
  if (c.d_model / c.heads % 2 != 0) json.fail("num_attention_heads", "heads of an even size, which rotate");
  parse_layers(json, c);
  json.ignore({"deterministic_flash_attn", "initializer_cutoff_factor", "layer_norm_eps", "reference_compile",
               "repad_logits_with_grad", "sparse_pred_ignore_index", "sparse_prediction"});
  return c;
}

EncoderHeads modernbert_heads(const ModernBertConfig& c) {
  HeadMaps maps{0.0, "head.dense", c.head_activation, "head.norm", c.head_dropout, "classifier"};
  EncoderHeads heads{.prefix = "model."};
  heads.sequence = heads.token = heads.span = maps;
  maps.output = "decoder";
  maps.dropout = 0.0;
  heads.masked_lm = maps;
  heads.dense_bias = c.classifier_bias;
  heads.norm_bias = c.norm_bias;
  heads.output_has_bias = c.decoder_bias;
  return heads;
}

std::unique_ptr<Model> build_modernbert(const ModernBertConfig& c, WeightBuilder& w) {
  const EncoderHeads heads = modernbert_heads(c);
  const std::string prefix = begin_body(c, heads, w);
  const auto norm = [&](const std::string& name) {
    return w.layer_norm(name, c.d_model, c.norm_eps, c.norm_bias);
  };
  const auto global = std::make_shared<RotaryPositions>(c.global_rotary);
  const auto local = std::make_shared<RotaryPositions>(c.local_rotary);
  EncoderParts parts;
  // The row of padding is as random as the others.
  parts.embeddings.tokens = {w.embedding(prefix + "embeddings.tok_embeddings.weight", c.vocab_size, c.d_model,
                                         {}, vocabulary_output(c, heads)),
                             1.0, c.padding};
  parts.embeddings.norm = norm(prefix + "embeddings.norm");
  parts.embeddings.dropout = c.dropout;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string file = prefix + "layers." + std::to_string(i) + ".";
    const bool near = c.is_local[static_cast<std::size_t>(i)];
    std::optional<Norm> first;
    if (i > 0) first = norm(file + "attn_norm");
    const Linear qkv = w.linear(file + "attn.Wqkv", 3 * c.d_model, c.d_model, c.attention_bias);
    const SelfAttention attention{{.out = w.linear(file + "attn.Wo", c.d_model, c.d_model, c.attention_bias),
                                   .heads = c.heads,
                                   .kv_heads = c.heads,
                                   .dropout = c.attention_dropout,
                                   .rotary = near ? local : global,
                                   .window = near ? c.reach + 1 : 0,
                                   .fused = qkv_by_kind(qkv, c.heads, c.heads, c.d_model / c.heads)}};
    const Norm second = norm(file + "mlp_norm");
    FeedForward feed_forward{w.linear(file + "mlp.Wi", 2 * c.d_ff, c.d_model, c.mlp_bias),
                             w.linear(file + "mlp.Wo", c.d_model, c.d_ff, c.mlp_bias), c.activation};
    feed_forward.dropout = c.mlp_dropout;
    feed_forward.fused_gate = true;
    const Sublayer self{
        .name = "self_attn", .norm_before = first, .part = attention, .dropout = c.attention_dropout};
    parts.stack.layers.push_back({{{.sublayers = {self}}, pre_norm("feed_forward", second, feed_forward)}});
  }
  parts.stack.final_norm = norm(prefix + "final_norm");
  parts.head = take_head(c, heads, w);
  return assemble_encoder(c, w.finish(), std::move(parts));
}

}  // namespace

Family modernbert_family() {
  return family<parse_modernbert, build_modernbert>({"modernbert"}, {"ModernBert"});
}

}  // namespace heed
