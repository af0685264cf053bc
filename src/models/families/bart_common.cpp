// The settings and the parts of BART and the families after it.
#include "models/families/bart_common.h"

#include <cmath>

#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/ops/shape.h"
#include "models/config_fields.h"

namespace heed {
namespace {

// Takes the layers of one stack.
class LayerBuilder {
 public:
  LayerBuilder(const BartLayers& config, WeightBuilder& w, std::string prefix, bool decodes)
      : c_(config),
        w_(w),
        prefix_(std::move(prefix)),
        decodes_(decodes),
        heads_(decodes ? config.decoder_heads : config.encoder_heads),
        d_ff_(decodes ? config.decoder_d_ff : config.encoder_d_ff) {}

  std::vector<Layer> operator()() const {
    std::vector<Layer> layers;
    const std::int64_t count = decodes_ ? c_.decoder_layers : c_.encoder_layers;
    for (std::int64_t i = 0; i < count; ++i)
      layers.push_back(layer(prefix_ + "layers." + std::to_string(i) + "."));
    return layers;
  }

 private:
  Layer layer(const std::string& file) const {
    Layer layer{
        {step("self_attn", file + "self_attn", SelfAttention{attention(file + "self_attn", c_.d_model)})}};
    if (decodes_) {
      const std::int64_t d_memory = c_.d_memory > 0 ? c_.d_memory : c_.d_model;
      layer.steps.push_back(step("cross_attn", file + "encoder_attn",
                                 CrossAttention{attention(file + "encoder_attn", d_memory)}));
    }
    layer.steps.push_back(step("feed_forward", file + "final", feed_forward(file)));
    return layer;
  }
  ResidualStep step(const char* name, const std::string& file, Part part) const {
    Norm norm = w_.layer_norm(file + "_layer_norm", c_.d_model, kBartNormEps);
    return (c_.norm_first ? pre_norm : post_norm)(name, std::move(norm), std::move(part), c_.dropout);
  }
  // Keys and values of what is `d_read` wide.
  MultiHeadAttention attention(const std::string& file, std::int64_t d_read) const {
    const Linear key = w_.linear(file + ".k_proj", c_.d_model, d_read, c_.key_bias);
    const Linear value = w_.linear(file + ".v_proj", c_.d_model, d_read);
    return {.q = w_.linear(file + ".q_proj", c_.d_model, c_.d_model),
            .k = key,
            .v = value,
            .out = w_.linear(file + ".out_proj", c_.d_model, c_.d_model),
            .heads = heads_,
            .kv_heads = heads_,
            .dropout = c_.attention_dropout};
  }
  FeedForward feed_forward(const std::string& file) const {
    return {w_.linear(file + "fc1", d_ff_, c_.d_model), w_.linear(file + "fc2", c_.d_model, d_ff_),
            c_.activation, c_.activation_dropout};
  }

  const BartLayers& c_;
  WeightBuilder& w_;
  std::string prefix_;
  bool decodes_;
  std::int64_t heads_, d_ff_;
};

}  // namespace

void take_bart_layers(EncoderDecoderParts& parts, const BartLayers& c, WeightBuilder& w) {
  parts.encoder.layers = LayerBuilder(c, w, "model.encoder.", false)();
  parts.decoder.stack.layers = take_bart_decoder(c, "model.decoder.", w);
}

std::vector<Layer> take_bart_decoder(const BartLayers& c, const std::string& prefix, WeightBuilder& w) {
  return LayerBuilder(c, w, prefix, true)();
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

std::int64_t computed_positions(const Config& json, std::int64_t default_value) {
  const std::int64_t positions = json.positive_integer("max_position_embeddings", default_value);
  if (positions > kMostPositions)
    json.fail("max_position_embeddings", "at most " + std::to_string(kMostPositions));
  return positions;
}

EncoderDecoderParts take_bart_embeddings(const BartConfig& c, WeightBuilder& w) {
  const OutputMap output{"lm_head.weight", c.tied};
  const std::string source = "model.encoder.embed_tokens.weight",
                    target = "model.decoder.embed_tokens.weight";
  TensorRow shared{.name = "model.shared.weight",
                   .shape = {c.vocab_size, c.layers.d_model},
                   .init = Init::embedding,
                   .tied = {source, target},
                   .padding = c.pad};
  if (output.tied) shared.tied.push_back(output.name);
  w.set_prefix("model.");
  w.take(shared);
  EncoderDecoderParts parts;
  parts.source = {.tokens = {w[source], c.embedding_scale, c.pad}, .dropout = c.layers.dropout};
  parts.decoder.embeddings = {.tokens = {w[target], c.embedding_scale, c.pad}, .dropout = c.layers.dropout};
  parts.decoder.output.weight = w.output(output, c.vocab_size, c.layers.d_model);
  return parts;
}

std::vector<BartStack> stacks_of(EncoderDecoderParts& parts) {
  return {{"model.encoder.", parts.source, parts.encoder},
          {"model.decoder.", parts.decoder.embeddings, parts.decoder.stack}};
}

Tensor take_logits_bias(WeightBuilder& w, std::int64_t vocab_size) {
  const Tensor bias = w.tensor({.name = "final_logits_bias",
                                .shape = {1, vocab_size},
                                .init = Init::zeros,
                                .trained = false,
                                .required = false});
  return reshape(bias, {vocab_size});
}

std::unique_ptr<Model> assemble_bart(const BartConfig& c, ModelContents files, EncoderDecoderParts parts) {
  return assemble_encoder_decoder(std::move(files), std::move(parts),
                                  {.vocab_size = c.vocab_size,
                                   .pad_id = c.pad,
                                   .eos_id = c.eos,
                                   .decoder_start_id = c.start,
                                   .max_positions = c.max_positions,
                                   .starts_with_last_label = c.starts_with_last_label});
}

}  // namespace heed
