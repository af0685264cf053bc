// The T5 and mT5 families: config, table of tensors, and the model built from parts.
#include <cmath>

#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/ops/activation.h"
#include "models/config_fields.h"
#include "models/encoder.h"
#include "models/encoder_decoder.h"
#include "models/families.h"
#include "models/tensor_rows.h"

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
  ignore_common_keys(json);
  return c;
}

std::string t5_block(const std::string& stack, std::int64_t i) {
  return stack + ".block." + std::to_string(i) + ".layer.";
}

// A matrix as T5 initializes it: normal with deviation 1 / sqrt(in).
void add_t5_linear(TensorTable& table, const std::string& name, std::int64_t out, std::int64_t in) {
  add_linear(table, name, out, in, false);
  table.rows.back().deviation = 1.0 / std::sqrt(static_cast<double>(in));
}

void add_t5_attention(TensorTable& table, const std::string& layer, const char* part, const T5Config& c) {
  const std::int64_t d_heads = c.heads * c.d_kv;
  for (const char* input : {".q", ".k", ".v"}) add_t5_linear(table, layer + part + input, d_heads, c.d_model);
  add_t5_linear(table, layer + part + ".o", c.d_model, d_heads);
  // Queries are not scaled by 1 / sqrt(d_kv) in the attention but in their initialization.
  table.rows[table.rows.size() - 4].deviation /= std::sqrt(static_cast<double>(c.d_kv));
  add_norm(table, layer + "layer_norm", c.d_model, false);
}

void add_t5_stack(TensorTable& table, const std::string& stack, std::int64_t layers, const T5Config& c) {
  const bool decoder = stack == "decoder";
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string block = t5_block(stack, i);
    add_t5_attention(table, block + "0.", "SelfAttention", c);
    if (i == 0) {
      table.rows.push_back(
          {block + "0.SelfAttention.relative_attention_bias.weight", {c.buckets, c.heads}, Init::embedding});
      table.rows.back().deviation = 1.0 / std::sqrt(static_cast<double>(c.d_model));
    }
    if (decoder) add_t5_attention(table, block + "1.", "EncDecAttention", c);
    const std::string last = block + (decoder ? "2." : "1.");
    for (const char* up : {"wi_0", "wi_1"})
      if (c.gated) add_t5_linear(table, last + "DenseReluDense." + up, c.d_ff, c.d_model);
    if (!c.gated) add_t5_linear(table, last + "DenseReluDense.wi", c.d_ff, c.d_model);
    add_t5_linear(table, last + "DenseReluDense.wo", c.d_model, c.d_ff);
    add_norm(table, last + "layer_norm", c.d_model, false);
  }
  add_norm(table, stack + ".final_layer_norm", c.d_model, false);
}

TensorTable t5_table(const T5Config& c, const HasTensor&) {
  TensorTable table;
  TensorRow shared{"shared.weight", {c.vocab_size, c.d_model}, Init::embedding};
  shared.deviation = 1;
  shared.tied = {"encoder.embed_tokens.weight"};
  if (!c.encoder_only)
    shared.tied.insert(shared.tied.end(), {"decoder.embed_tokens.weight", "lm_head.weight"});
  table.rows.push_back(shared);
  add_t5_stack(table, "encoder", c.encoder_layers, c);
  if (c.encoder_only) {  // which may be that of a file of the whole model
    TensorTable rest;
    add_t5_stack(rest, "decoder", c.decoder_layers, c);
    for (const TensorRow& row : rest.rows) table.ignored_names.push_back(row.name);
    table.ignored_names.insert(table.ignored_names.end(), {"decoder.embed_tokens.weight", "lm_head.weight"});
    return table;
  }
  add_t5_stack(table, "decoder", c.decoder_layers, c);
  table.ignored_names = {
      "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};  // never used
  return table;
}

class T5Builder {
 public:
  T5Builder(const T5Config& config, const Weights& weights) : c_(config), weights_(weights) {}

  InputEmbeddings embeddings(const std::string& stack) const {
    InputEmbeddings embeddings;
    embeddings.tokens.table = weights_[stack + ".embed_tokens.weight"];
    embeddings.dropout = c_.dropout;
    return embeddings;
  }
  Stack stack(const std::string& name, std::int64_t layers) const {
    const bool decoder = name == "decoder";
    const auto bias = std::make_shared<RelativePositions>(
        weights_[t5_block(name, 0) + "0.SelfAttention.relative_attention_bias.weight"],
        RelativeBuckets{c_.buckets, c_.max_distance, !decoder});
    Stack stack{.name = name};
    for (std::int64_t i = 0; i < layers; ++i) {
      const std::string file = t5_block(name, i);
      MultiHeadAttention self = attention(file + "0.SelfAttention");
      self.bias = bias;
      Layer layer{{step("self_attn", file + "0.", SelfAttention{self})}};
      if (decoder) {
        const CrossAttention cross{attention(file + "1.EncDecAttention")};
        layer.steps.push_back(step("cross_attn", file + "1.", cross));
      }
      const std::string last = file + (decoder ? "2." : "1.");
      layer.steps.push_back(step("feed_forward", last, feed_forward(last)));
      stack.layers.push_back(std::move(layer));
    }
    stack.final_norm = norm(name + ".final_layer_norm");
    return stack;
  }

 private:
  Norm norm(const std::string& name) const { return norm_part(weights_, name, NormKind::rms, c_.norm_eps); }
  ResidualStep step(const char* name, const std::string& file, Part part) const {
    return pre_norm(name, norm(file + "layer_norm"), std::move(part), c_.dropout);
  }
  MultiHeadAttention attention(const std::string& file) const {
    return {.q = linear_part(weights_, file + ".q"),
            .k = linear_part(weights_, file + ".k"),
            .v = linear_part(weights_, file + ".v"),
            .out = linear_part(weights_, file + ".o"),
            .heads = c_.heads,
            .kv_heads = c_.heads,
            .dropout = c_.dropout,
            .scale = 1.0};
  }
  FeedForward feed_forward(const std::string& layer) const {
    const std::string file = layer + "DenseReluDense.";
    FeedForward part{linear_part(weights_, file + (c_.gated ? "wi_1" : "wi")),
                     linear_part(weights_, file + "wo"), c_.activation, c_.dropout};
    if (c_.gated) part.gate = linear_part(weights_, file + "wi_0");
    return part;
  }

  const T5Config& c_;
  const Weights& weights_;
};

std::unique_ptr<Model> build_t5_encoder(const T5Config& c, ModelFiles files) {
  const T5Builder build(c, files.weights);
  EncoderParts parts;
  parts.embeddings = build.embeddings("encoder");
  parts.stack = build.stack("encoder", c.encoder_layers);
  parts.stack_dropout = c.dropout;
  EncoderConfig config;
  config.architecture = "an encoder alone";
  config.vocab_size = c.vocab_size;
  config.d_model = c.d_model;
  config.padding = c.pad;
  return assemble_encoder(config, std::move(files), std::move(parts));
}

std::unique_ptr<Model> build_t5(const T5Config& c, ModelFiles files) {
  if (c.encoder_only) return build_t5_encoder(c, std::move(files));
  const T5Builder build(c, files.weights);
  EncoderDecoderParts parts;
  parts.source = build.embeddings("encoder");
  parts.encoder = build.stack("encoder", c.encoder_layers);
  parts.decoder.embeddings = build.embeddings("decoder");
  parts.decoder.stack = build.stack("decoder", c.decoder_layers);
  parts.encoder_dropout = parts.decoder.stack_dropout = c.dropout;
  parts.decoder.output_scale = c.output_scale;
  parts.decoder.output.weight = files.weights["lm_head.weight"];
  return assemble_encoder_decoder(
      std::move(files), std::move(parts),
      {.vocab_size = c.vocab_size, .pad_id = c.pad, .eos_id = c.eos, .decoder_start_id = c.start});
}

}  // namespace

Family t5_family() { return family<&T5Config::parse, t5_table, build_t5>({"t5", "mt5"}); }

}  // namespace heed
