// Rows and parts of BART's layers.
#include "models/families/bart_common.h"

#include <cmath>

#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/ops/shape.h"
#include "models/config_fields.h"
#include "models/position_limit.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

constexpr double kNormEps = 1e-5;

std::string layer_file(const char* stack, std::int64_t layer) {
  return std::string("model.") + stack + ".layers." + std::to_string(layer) + ".";
}

void add_attention(TensorTable& table, const std::string& name, const BartLayers& c) {
  add_linear(table, name + ".k_proj", c.d_model, c.d_model, c.key_bias);
  for (const char* part : {"v_proj", "q_proj", "out_proj"})
    add_linear(table, name + "." + part, c.d_model, c.d_model);
  add_norm(table, name + "_layer_norm", c.d_model);
}

void add_feed_forward(TensorTable& table, const std::string& layer, std::int64_t d_model, std::int64_t d_ff) {
  add_linear(table, layer + "fc1", d_ff, d_model);
  add_linear(table, layer + "fc2", d_model, d_ff);
  add_norm(table, layer + "final_layer_norm", d_model);
}

class LayerBuilder {
 public:
  LayerBuilder(const BartLayers& config, const Weights& weights) : c_(config), weights_(weights) {}

  Layer encoder(std::int64_t i) const {
    const std::string file = layer_file("encoder", i);
    return {{step("self_attn", file + "self_attn",
                  SelfAttention{attention(file + "self_attn", c_.encoder_heads)}),
             step("feed_forward", file + "final", feed_forward(file))}};
  }
  Layer decoder(std::int64_t i) const {
    const std::string file = layer_file("decoder", i);
    return {{step("self_attn", file + "self_attn",
                  SelfAttention{attention(file + "self_attn", c_.decoder_heads)}),
             step("cross_attn", file + "encoder_attn",
                  CrossAttention{attention(file + "encoder_attn", c_.decoder_heads)}),
             step("feed_forward", file + "final", feed_forward(file))}};
  }

 private:
  ResidualStep step(const char* name, const std::string& file, Part part) const {
    Norm norm = norm_part(weights_, file + "_layer_norm", NormKind::layer, kNormEps);
    return (c_.norm_first ? pre_norm : post_norm)(name, std::move(norm), std::move(part), c_.dropout);
  }
  MultiHeadAttention attention(const std::string& file, std::int64_t heads) const {
    return {.q = linear_part(weights_, file + ".q_proj"),
            .k = linear_part(weights_, file + ".k_proj"),
            .v = linear_part(weights_, file + ".v_proj"),
            .out = linear_part(weights_, file + ".out_proj"),
            .heads = heads,
            .kv_heads = heads,
            .dropout = c_.attention_dropout};
  }
  FeedForward feed_forward(const std::string& layer) const {
    return {linear_part(weights_, layer + "fc1"), linear_part(weights_, layer + "fc2"), c_.activation,
            c_.activation_dropout};
  }

  const BartLayers& c_;
  const Weights& weights_;
};

}  // namespace

void add_bart_layers(TensorTable& table, const BartLayers& c) {
  for (std::int64_t i = 0; i < c.encoder_layers; ++i) {
    const std::string layer = layer_file("encoder", i);
    add_attention(table, layer + "self_attn", c);
    add_feed_forward(table, layer, c.d_model, c.encoder_d_ff);
  }
  for (std::int64_t i = 0; i < c.decoder_layers; ++i) {
    const std::string layer = layer_file("decoder", i);
    add_attention(table, layer + "self_attn", c);
    add_attention(table, layer + "encoder_attn", c);
    add_feed_forward(table, layer, c.d_model, c.decoder_d_ff);
  }
}

void build_bart_layers(EncoderDecoderParts& parts, const BartLayers& c, const Weights& weights) {
  const LayerBuilder build(c, weights);
  for (std::int64_t i = 0; i < c.encoder_layers; ++i) parts.encoder.layers.push_back(build.encoder(i));
  for (std::int64_t i = 0; i < c.decoder_layers; ++i) parts.decoder.stack.layers.push_back(build.decoder(i));
}

BartLayers BartLayers::parse(const Config& json, const char* activation_default,
                             double attention_dropout_default) {
  BartLayers l;
  const char* heads = common_or_own(json, "num_attention_heads", "encoder_attention_heads");
  l.d_model = json.positive_integer(common_or_own(json, "hidden_size", "d_model"), 1024);
  l.encoder_layers = layer_count(json, common_or_own(json, "num_hidden_layers", "encoder_layers"), 12);
  l.decoder_layers = layer_count(json, "decoder_layers", 12);
  l.encoder_heads = json.positive_integer(heads, 16);
  l.decoder_heads = json.positive_integer("decoder_attention_heads", 16);
  l.encoder_d_ff = json.positive_integer("encoder_ffn_dim", 4096);
  l.decoder_d_ff = json.positive_integer("decoder_ffn_dim", 4096);
  l.activation =
      activation_setting(json, "activation_function", json.string("activation_function", activation_default));
  l.dropout = probability(json, "dropout", 0.1);
  l.attention_dropout = probability(json, "attention_dropout", attention_dropout_default);
  l.activation_dropout = probability(json, "activation_dropout", 0.0);
  check_heads(json, heads, l.d_model, l.encoder_heads);
  check_heads(json, "decoder_attention_heads", l.d_model, l.decoder_heads);
  // Settings of training and of other heads, and those of the first versions, which transformers does not
  // read either.
  json.ignore({"add_bias_logits", "add_final_layer_norm", "classif_dropout", "classifier_dropout",
               "decoder_layerdrop", "encoder_layerdrop", "extra_pos_embeddings",
               "force_bos_token_to_be_generated", "init_std", "is_decoder", "is_encoder_decoder",
               "normalize_before", "normalize_embedding", "static_position_embeddings"});
  ignore_common_keys(json);
  return l;
}

BartConfig BartConfig::parse(const Config& json, const BartDefaults& defaults) {
  BartConfig c;
  c.layers = BartLayers::parse(json, defaults.activation, defaults.attention_dropout);
  c.vocab_size = json.positive_integer("vocab_size", defaults.vocab_size);
  c.max_positions = json.positive_integer("max_position_embeddings", 1024);
  if (json.boolean("scale_embedding", defaults.scale_embedding))
    c.embedding_scale = std::sqrt(static_cast<double>(c.layers.d_model));
  c.tied = json.boolean("tie_word_embeddings", true);
  c.pad = json.integer("pad_token_id", defaults.pad);
  c.eos = single_id(json, "eos_token_id", defaults.eos);
  c.start = json.integer("decoder_start_token_id", defaults.start.value_or(c.eos));
  check_id(json, "pad_token_id", c.pad, c.vocab_size);
  check_id(json, "eos_token_id", c.eos, c.vocab_size);
  check_id(json, "decoder_start_token_id", c.start, c.vocab_size);
  return c;
}

std::int64_t computed_positions(const Config& json) {
  const std::int64_t positions = json.positive_integer("max_position_embeddings", 1024);
  if (positions > kMostPositions)
    json.fail("max_position_embeddings", "at most " + std::to_string(kMostPositions));
  return positions;
}

void add_shared_embedding(TensorTable& table, const BartConfig& c) {
  add_embedding(table, "model.shared.weight", c.vocab_size, c.layers.d_model, c.pad);
  table.rows.back().tied = {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"};
  table.rows.back().map = MapKind::none;
  if (c.tied) table.rows.back().tied.push_back("lm_head.weight");
  if (!c.tied) add_output(table, false, "lm_head.weight", {c.vocab_size, c.layers.d_model});
}

void add_logits_bias(TensorTable& table, std::int64_t vocab_size) {
  table.rows.push_back({"final_logits_bias", {1, vocab_size}, Init::zeros, false, false});
}

std::unique_ptr<Model> build_bart_model(
    const BartConfig& c, ModelFiles files,
    const std::function<void(const Weights&, const std::string&, InputEmbeddings&)>& add_positions) {
  const Weights& weights = files.weights;
  const auto embeddings = [&](const std::string& stack) {
    InputEmbeddings made{.tokens = {weights[stack + "embed_tokens.weight"], c.embedding_scale, c.pad},
                         .dropout = c.layers.dropout};
    add_positions(weights, stack, made);
    return made;
  };
  EncoderDecoderParts parts;
  parts.source = embeddings("model.encoder.");
  parts.decoder.embeddings = embeddings("model.decoder.");
  build_bart_layers(parts, c.layers, weights);
  if (c.layers.norm_first) {
    const auto norm = [&](const char* name) { return norm_part(weights, name, NormKind::layer, kNormEps); };
    parts.encoder.final_norm = norm("model.encoder.layer_norm");
    parts.decoder.stack.final_norm = norm("model.decoder.layer_norm");
  }
  parts.decoder.output.weight = weights["lm_head.weight"];
  const Tensor bias = weights.find("final_logits_bias");
  if (bias.defined()) parts.decoder.output.bias = reshape(bias, {c.vocab_size});
  return assemble_encoder_decoder(std::move(files), std::move(parts),
                                  {.vocab_size = c.vocab_size,
                                   .pad_id = c.pad,
                                   .eos_id = c.eos,
                                   .decoder_start_id = c.start,
                                   .max_positions = c.max_positions,
                                   .starts_with_last_label = c.starts_with_last_label});
}

}  // namespace heed
