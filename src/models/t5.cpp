// The T5 and mT5 families: config, table of tensors, and the model built from parts.
#include "heed/models/t5.h"

#include <cmath>

#include "heed/ops/activation.h"
#include "models/config_fields.h"
#include "models/encoder_decoder.h"
#include "models/named_tensors.h"
#include "models/rows.h"

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

  static T5Config parse(const Config& json);
};

// "relu", "gated-gelu", ...: the activation and whether it is that of a gate.
void parse_feed_forward(const Config& json, T5Config& c, const char* otherwise) {
  std::string name = json.string("feed_forward_proj", otherwise);
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
  // 1.1 is told from the original by `tie_word_embeddings: false`, in newer files by a key of its own; which
  // tensors are tied shows in the weights.
  const bool scaled = json.boolean("scale_decoder_outputs", json.boolean("tie_word_embeddings", true));
  if (scaled && !mt5) c.output_scale = 1.0 / std::sqrt(static_cast<double>(c.d_model));
  c.pad = json.integer("pad_token_id", 0);
  c.eos = single_id(json, "eos_token_id", 1);
  c.start = json.integer("decoder_start_token_id", c.pad);
  check_id(json, "pad_token_id", c.pad, c.vocab_size);
  check_id(json, "eos_token_id", c.eos, c.vocab_size);
  check_id(json, "decoder_start_token_id", c.start, c.vocab_size);
  json.ignore({"classifier_dropout", "initializer_factor", "is_decoder", "is_encoder_decoder", "n_positions",
               "output_past", "tokenizer_class"});
  ignore_common_keys(json);
  return c;
}

std::string t5_block(const std::string& stack, std::int64_t i) {
  return stack + ".block." + std::to_string(i) + ".layer.";
}

void add_t5_attention(TensorTable& table, const std::string& layer, const char* part, const T5Config& c) {
  const std::int64_t inner = c.heads * c.d_kv;
  for (const char* input : {".q", ".k", ".v"})
    add_linear(table, layer + part + input, inner, c.d_model, false);
  add_linear(table, layer + part + ".o", c.d_model, inner, false);
  add_norm(table, layer + "layer_norm", c.d_model, false);
}

void add_t5_stack(TensorTable& table, const std::string& stack, std::int64_t layers, const T5Config& c) {
  const bool decoder = stack == "decoder";
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string block = t5_block(stack, i);
    add_t5_attention(table, block + "0.", "SelfAttention", c);
    if (i == 0)
      table.rows.push_back(
          {block + "0.SelfAttention.relative_attention_bias.weight", {c.buckets, c.heads}, Init::embedding});
    if (decoder) add_t5_attention(table, block + "1.", "EncDecAttention", c);
    const std::string last = block + (decoder ? "2." : "1.");
    for (const char* up : {"wi_0", "wi_1"})
      if (c.gated) add_linear(table, last + "DenseReluDense." + up, c.d_ff, c.d_model, false);
    if (!c.gated) add_linear(table, last + "DenseReluDense.wi", c.d_ff, c.d_model, false);
    add_linear(table, last + "DenseReluDense.wo", c.d_model, c.d_ff, false);
    add_norm(table, last + "layer_norm", c.d_model, false);
  }
  add_norm(table, stack + ".final_layer_norm", c.d_model, false);
}

// T5EncoderModel: the encoder alone, for vectors of texts.
bool is_encoder(const Config& json) {
  const std::vector<std::string> names = json.strings("architectures");
  return !names.empty() && names.front().ends_with("EncoderModel");
}

TensorTable t5_table(const Config& json) {
  const T5Config c = T5Config::parse(json);
  TensorTable table;
  TensorRow shared{"shared.weight", {c.vocab_size, c.d_model}, Init::embedding};
  shared.tied = {"encoder.embed_tokens.weight"};
  if (!is_encoder(json))
    shared.tied.insert(shared.tied.end(), {"decoder.embed_tokens.weight", "lm_head.weight"});
  table.rows.push_back(shared);
  add_t5_stack(table, "encoder", c.encoder_layers, c);
  if (is_encoder(json)) {  // which may be that of a file of the whole model
    TensorTable rest;
    add_t5_stack(rest, "decoder", c.decoder_layers, c);
    for (const TensorRow& row : rest.rows) table.computed.push_back(row.name);
    table.computed.insert(table.computed.end(), {"decoder.embed_tokens.weight", "lm_head.weight"});
    return table;
  }
  add_t5_stack(table, "decoder", c.decoder_layers, c);
  table.computed = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};  // never used
  return table;
}

class T5Builder {
 public:
  T5Builder(const T5Config& config, const Weights& weights) : c_(config), weights_(weights) {}

  EmbeddingParts embedding(const std::string& stack) const {
    return {{weights_[stack + ".embed_tokens.weight"], 1.0, std::nullopt},
            std::make_shared<RelativePositions>(
                weights_[t5_block(stack, 0) + "0.SelfAttention.relative_attention_bias.weight"],
                RelativeBuckets{c_.buckets, c_.max_distance, stack == "encoder"})};
  }
  Encoder encoder(const Positions* positions) const {
    Encoder stack;
    for (std::int64_t i = 0; i < c_.encoder_layers; ++i) {
      const std::string file = t5_block("encoder", i), name = "encoder.layers." + std::to_string(i);
      stack.layers.push_back({name, attention(file + "0.SelfAttention", name + ".self_attn", positions),
                              residual(file + "0."), feed_forward(file + "1."), residual(file + "1.")});
    }
    stack.final_norm = norm("encoder.final_layer_norm");
    return stack;
  }
  Decoder decoder(const Positions* positions) const {
    Decoder stack;
    for (std::int64_t i = 0; i < c_.decoder_layers; ++i) {
      const std::string file = t5_block("decoder", i), name = "decoder.layers." + std::to_string(i);
      stack.layers.push_back({name, attention(file + "0.SelfAttention", name + ".self_attn", positions),
                              residual(file + "0."),
                              attention(file + "1.EncDecAttention", name + ".cross_attn", nullptr),
                              residual(file + "1."), feed_forward(file + "2."), residual(file + "2.")});
    }
    stack.final_norm = norm("decoder.final_layer_norm");
    return stack;
  }

 private:
  Norm norm(const std::string& name) const { return norm_part(weights_, name, NormKind::rms, c_.norm_eps); }
  Residual residual(const std::string& layer) const {
    return {norm(layer + "layer_norm"), NormPlace::pre, c_.dropout};
  }
  MultiHeadAttention attention(const std::string& file, const std::string& name,
                               const Positions* positions) const {
    return {.name = name,
            .q = linear_part(weights_, file + ".q"),
            .k = linear_part(weights_, file + ".k"),
            .v = linear_part(weights_, file + ".v"),
            .out = linear_part(weights_, file + ".o"),
            .heads = c_.heads,
            .kv_heads = c_.heads,
            .dropout = c_.dropout,
            .positions = positions,
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

class T5 final : public AssembledEncoderDecoder {
 public:
  explicit T5(ModelFiles files) : AssembledEncoderDecoder(std::move(files)) {
    const T5Config c = T5Config::parse(config());
    const T5Builder build(c, weights());
    facts_ = {c.vocab_size, c.pad, c.eos, c.start, std::nullopt};
    parts_.source = build.embedding("encoder");
    parts_.target = build.embedding("decoder");
    parts_.embedding_dropout = parts_.stack_dropout = c.dropout;
    parts_.encoder = build.encoder(parts_.source.positions.get());
    parts_.decoder = build.decoder(parts_.target.positions.get());
    parts_.output_scale = c.output_scale;
    parts_.output = {weights()["lm_head.weight"], {}};
  }
};

class T5Encoder final : public EncoderModel {
 public:
  explicit T5Encoder(ModelFiles files) : files_(std::move(files)), c_(T5Config::parse(files_.config)) {
    const T5Builder build(c_, files_.weights);
    parts_.source = build.embedding("encoder");
    parts_.embedding_dropout = parts_.stack_dropout = c_.dropout;
    parts_.encoder = build.encoder(parts_.source.positions.get());
  }

  std::string family() const override { return files_.config.required_string("model_type"); }
  const std::vector<Parameter>& parameters() const override { return files_.weights.parameters(); }
  void save(const std::filesystem::path& directory, DType dtype) const override {
    files_.save(directory, dtype);
  }
  std::vector<std::string> unknown_settings() const override { return files_.config.unused(); }
  std::optional<std::int64_t> max_positions() const override { return std::nullopt; }
  std::int64_t vocab_size() const override { return c_.vocab_size; }
  EncoderHead head() const override { return EncoderHead::none; }
  const std::vector<std::string>& labels() const override { return labels_; }
  std::optional<LabelProblem> problem() const override { return std::nullopt; }
  std::int64_t hidden_size() const override { return c_.d_model; }
  std::int64_t type_vocab_size() const override { return 0; }
  std::int64_t pad_id() const override { return c_.pad; }
  Tensor encode(const EncoderBatch& batch, Context& context) const override {
    return parts_.encode({batch.ids, batch.mask}, context);
  }
  Tensor predict(const Tensor&, Context&) const override { refuse_head(); }
  Tensor loss(const EncoderBatch&, const Tensor&, const CrossEntropyOptions&, Context&) const override {
    refuse_head();
  }
  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override;

 private:
  [[noreturn]] static void refuse_head() {
    throw Error("predict: expected a model with a head, got an encoder alone");
  }

  ModelFiles files_;
  T5Config c_;
  EncoderDecoderParts parts_;
  std::vector<std::string> labels_;
};

TensorMap T5Encoder::forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const {
  refuse_unknown_inputs(inputs, {"input_ids", "attention_mask"});
  const Tensor ids = ids_input(required_input(inputs, "input_ids"), "input_ids");
  check_ids(ids, "input_ids", c_.vocab_size);
  const Tensor mask = optional_ids(inputs, "attention_mask", &ids.shape());
  TensorMap outputs;
  Taps taps(context.taps);
  const std::size_t layers = parts_.encoder.layers.size();
  if (options.hidden_states)
    collect_hidden_states(taps, parts_.encoder.name, layers, "hidden_states", outputs);
  if (options.attentions)
    collect_attentions(taps, parts_.encoder.name, "self_attn", layers, "attentions", outputs);
  Context listening = context;
  listening.taps = &taps;
  const Tensor hidden = parts_.encode({ids, mask}, listening);
  if (options.hidden_states) outputs["hidden_states." + std::to_string(layers)] = hidden;  // behind the norm
  outputs["last_hidden_state"] = hidden;
  return outputs;
}

std::unique_ptr<Model> t5_of(ModelFiles files) {
  if (is_encoder(files.config)) return std::make_unique<T5Encoder>(std::move(files));
  return std::make_unique<T5>(std::move(files));
}

}  // namespace

std::unique_ptr<Model> load_t5(const std::filesystem::path& directory, DType dtype) {
  return t5_of(ModelFiles::load(directory, dtype, t5_table));
}

std::unique_ptr<Model> make_t5(const Config& config, Generator& generator) {
  return t5_of(ModelFiles::make(config, generator, t5_table));
}

}  // namespace heed
