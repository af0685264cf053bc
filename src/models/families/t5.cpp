// The T5 and mT5 families: config, and the model built from parts.
#include <cmath>

#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/ops/activation.h"
#include "models/config_fields.h"
#include "models/encoder.h"
#include "models/encoder_decoder.h"
#include "models/families.h"

namespace heed {
namespace {

struct T5Config {
  std::int64_t vocab_size = 0, d_model = 0, d_kv = 0, d_ff = 0, heads = 0;
  std::int64_t encoder_layers = 0, decoder_layers = 0;
  std::int64_t buckets = 0, max_distance = 0;
  Activation activation = Activation::relu;
  bool gated = false;
  double dropout = 0.0, norm_eps = 0.0, output_scale = 1.0;
  std::int64_t pad = 0, eos = 0, start = 0;
  bool encoder_only = false;  // T5EncoderModel: for vectors of texts

  static T5Config parse(const Config& json);
};

// "relu", "gated-gelu", ...: the activation and whether it is that of a gate.
void parse_feed_forward(const Config& json, T5Config& c, const char* default_value) {
  std::string name = json.string("feed_forward_proj", default_value);
  c.gated = name.starts_with("gated-");
  if (c.gated) name.erase(0, 6);
  if (name.find('-') != std::string::npos) json.fail("feed_forward_proj", "ACTIVATION or gated-ACTIVATION");
  // The gate of 1.1 was always the approximation by tanh, whatever its name says.
  if (c.gated && name == "gelu") name = "gelu_new";
  c.activation = activation_setting(json, "feed_forward_proj", name);
  // What transformers works out of the name and writes beside it; where a file has them, they win.
  if (json.has("dense_act_fn"))
    c.activation = activation_setting(json, "dense_act_fn", json.required_string("dense_act_fn"));
  c.gated = json.boolean("is_gated_act", c.gated);
}

T5Config T5Config::parse(const Config& json) {
  const bool mt5 = json.required_string("model_type") == "mt5";
  T5Config c;
  c.vocab_size = json.positive_integer("vocab_size", mt5 ? 250112 : 32128);
  c.d_model = json.positive_integer(common_or_own(json, "hidden_size", "d_model"), 512);
  c.d_kv = json.positive_integer(common_or_own(json, "head_dim", "d_kv"), 64);
  c.d_ff = json.positive_integer("d_ff", mt5 ? 1024 : 2048);
  c.heads = json.positive_integer(common_or_own(json, "num_attention_heads", "num_heads"), mt5 ? 6 : 8);
  c.encoder_layers = layer_count(json, common_or_own(json, "num_hidden_layers", "num_layers"), mt5 ? 8 : 6);
  c.decoder_layers = layer_count(json, "num_decoder_layers", layer_count(json, "num_layers", mt5 ? 8 : 6));
  c.buckets = json.positive_integer("relative_attention_num_buckets", 32);
  c.max_distance = json.positive_integer("relative_attention_max_distance", 128);
  if (c.buckets < 4) json.fail("relative_attention_num_buckets", "at least 4");
  if (c.max_distance <= c.buckets / 2)
    json.fail("relative_attention_max_distance", "more than half of relative_attention_num_buckets");
  parse_feed_forward(json, c, mt5 ? "gated-gelu" : "relu");
  c.dropout = probability(json, "dropout_rate", 0.1);
  c.norm_eps = norm_epsilon(json, "layer_norm_epsilon", 1e-6);
  // 1.1 differs from the original in `tie_word_embeddings: false`, in newer files in a key of its own; which
  // tensors are tied shows in the weights.
  const bool scaled = json.boolean("scale_decoder_outputs", json.boolean("tie_word_embeddings", true));
  if (scaled && !mt5) c.output_scale = 1.0 / std::sqrt(static_cast<double>(c.d_model));
  c.pad = json.integer("pad_token_id", 0);
  c.eos = single_id(json, "eos_token_id", 1);
  c.start = json.integer("decoder_start_token_id", c.pad);
  check_id(json, "pad_token_id", c.pad, c.vocab_size);
  check_id(json, "eos_token_id", c.eos, c.vocab_size);
  check_id(json, "decoder_start_token_id", c.start, c.vocab_size);
  const std::vector<std::string> architectures = json.strings("architectures");
  c.encoder_only = !architectures.empty() && architectures.front().ends_with("EncoderModel");
  json.ignore({"classifier_dropout", "initializer_factor", "is_decoder", "is_encoder_decoder", "n_positions",
               "output_past", "tokenizer_class"});
  return c;
}

class T5Builder {
 public:
  T5Builder(const T5Config& config, WeightBuilder& w) : c_(config), w_(w) {}

  // The stack `name`, encoder or decoder.
  Stack stack(const std::string& name, std::int64_t layers) const {
    const bool decoder = name == "decoder";
    std::shared_ptr<const ScoreBias> bias;  // in the file of the first layer, for all
    Stack stack{.name = name};
    for (std::int64_t i = 0; i < layers; ++i) {
      const std::string file = name + ".block." + std::to_string(i) + ".layer.";
      MultiHeadAttention self = attention(file + "0.SelfAttention");
      const Norm self_norm = norm(file + "0.layer_norm");
      if (i == 0) bias = relative_positions(file + "0.SelfAttention.", !decoder);
      self.bias = bias;
      Layer layer{{pre_norm("self_attn", self_norm, SelfAttention{self}, c_.dropout)}};
      if (decoder)
        layer.steps.push_back(
            step("cross_attn", file + "1.", CrossAttention{attention(file + "1.EncDecAttention")}));
      const std::string last = file + (decoder ? "2." : "1.");
      layer.steps.push_back(step("feed_forward", last, feed_forward(last + "DenseReluDense.")));
      stack.layers.push_back(std::move(layer));
    }
    stack.final_norm = norm(name + ".final_layer_norm");
    return stack;
  }

 private:
  Norm norm(const std::string& name) const { return w_.rms_norm(name, c_.d_model, c_.norm_eps); }
  ResidualStep step(const char* name, const std::string& file, Part part) const {
    return pre_norm(name, norm(file + "layer_norm"), std::move(part), c_.dropout);
  }
  // A matrix as T5 initializes it: normal with standard deviation 1 / sqrt(in).
  Linear linear(const std::string& name, std::int64_t out, std::int64_t in, double init_scale = 1) const {
    return {w_.take({.name = name + ".weight",
                     .shape = {out, in},
                     .init_std = 1.0 / std::sqrt(static_cast<double>(in)) / init_scale,
                     .target = AdapterTarget::linear}),
            {}};
  }
  std::shared_ptr<const ScoreBias> relative_positions(const std::string& file, bool bidirectional) const {
    return std::make_shared<RelativePositions>(
        w_.tensor({.name = file + "relative_attention_bias.weight",
                   .shape = {c_.buckets, c_.heads},
                   .init = Init::embedding,
                   .init_std = 1.0 / std::sqrt(static_cast<double>(c_.d_model))}),
        RelativeBuckets{c_.buckets, c_.max_distance, bidirectional});
  }
  MultiHeadAttention attention(const std::string& file) const {
    const std::int64_t d_heads = c_.heads * c_.d_kv;
    // Queries are not scaled by 1 / sqrt(d_kv) in the attention but in their initialization.
    return {.q = linear(file + ".q", d_heads, c_.d_model, std::sqrt(static_cast<double>(c_.d_kv))),
            .k = linear(file + ".k", d_heads, c_.d_model),
            .v = linear(file + ".v", d_heads, c_.d_model),
            .out = linear(file + ".o", c_.d_model, d_heads),
            .heads = c_.heads,
            .kv_heads = c_.heads,
            .dropout = c_.dropout,
            .scale = 1.0};
  }
  FeedForward feed_forward(const std::string& file) const {
    std::optional<Linear> gate;
    if (c_.gated) gate = linear(file + "wi_0", c_.d_ff, c_.d_model);
    return {linear(file + (c_.gated ? "wi_1" : "wi"), c_.d_ff, c_.d_model),
            linear(file + "wo", c_.d_model, c_.d_ff), c_.activation, c_.dropout, gate};
  }

  const T5Config& c_;
  WeightBuilder& w_;
};

InputEmbeddings t5_embeddings(const T5Config& c, const Weight& table) {
  return {.tokens = {.table = table}, .dropout = c.dropout};
}

// The encoder alone, which may be that of a file of the whole model.
std::unique_ptr<Model> build_t5_encoder(const T5Config& c, WeightBuilder& w, const Weight& table) {
  EncoderParts parts{.embeddings = t5_embeddings(c, table)};
  parts.stack = T5Builder(c, w).stack("encoder", c.encoder_layers);
  parts.stack_dropout = c.dropout;
  WeightBuilder decoder;
  T5Builder(c, decoder).stack("decoder", c.decoder_layers);
  for (const TensorRow& row : decoder.rows()) w.ignore(row.name);
  EncoderConfig config;
  config.architecture = "an encoder alone";
  config.vocab_size = c.vocab_size;
  config.d_model = c.d_model;
  config.padding = c.pad;
  return assemble_encoder(config, w.finish(), std::move(parts));
}

std::unique_ptr<Model> build_t5(const T5Config& c, WeightBuilder& w) {
  const std::string source = "encoder.embed_tokens.weight", target = "decoder.embed_tokens.weight",
                    output = "lm_head.weight";
  TensorRow shared{.name = "shared.weight",
                   .shape = {c.vocab_size, c.d_model},
                   .init = Init::embedding,
                   .tied = {source},
                   .init_std = 1};
  for (const std::string& name : {target, output}) {
    if (c.encoder_only) w.ignore(name);
    if (!c.encoder_only) shared.tied.push_back(name);
  }
  w.take(shared);
  if (c.encoder_only) return build_t5_encoder(c, w, w[source]);
  const T5Builder build(c, w);
  EncoderDecoderParts parts;
  parts.source = t5_embeddings(c, w[source]);
  parts.encoder = build.stack("encoder", c.encoder_layers);
  parts.decoder.embeddings = t5_embeddings(c, w[target]);
  parts.decoder.stack = build.stack("decoder", c.decoder_layers);
  parts.encoder_dropout = parts.decoder.stack_dropout = c.dropout;
  parts.decoder.output_scale = c.output_scale;
  // A scaled map stays tied: that the results are scaled shows in that alone.
  parts.decoder.output.weight =
      c.output_scale == 1 ? w.output({output, true}, c.vocab_size, c.d_model) : w[output];
  w.ignore("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight");  // never used
  return assemble_encoder_decoder(
      w.finish(), std::move(parts),
      {.vocab_size = c.vocab_size, .pad_id = c.pad, .eos_id = c.eos, .decoder_start_id = c.start});
}

}  // namespace

Family t5_family() { return family<&T5Config::parse, build_t5>({"t5", "mt5"}); }

}  // namespace heed
