// The Marian family: its config, its table of tensors, and the model built from parts.
#include "heed/models/marian.h"

#include <cmath>

#include "heed/autograd.h"
#include "heed/io/file.h"
#include "heed/models/tensor_table.h"
#include "heed/nn/block.h"
#include "heed/ops/activation.h"
#include "heed/ops/loss.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "models/config_fields.h"
#include "models/encoder_decoder.h"
#include "models/rows.h"

namespace heed {
namespace {

constexpr double kNormEps = 1e-5;

std::string layer_name(const char* stack, std::int64_t layer) {
  return std::string("model.") + stack + ".layers." + std::to_string(layer) + ".";
}

void add_attention(TensorTable& table, const std::string& name, std::int64_t width) {
  for (const char* part : {"k_proj", "v_proj", "q_proj", "out_proj"})
    add_linear(table, name + "." + part, width, width);
  add_norm(table, name + "_layer_norm", width);
}

void add_feed_forward(TensorTable& table, const std::string& prefix, std::int64_t width, std::int64_t inner) {
  add_linear(table, prefix + "fc1", inner, width);
  add_linear(table, prefix + "fc2", width, inner);
  add_norm(table, prefix + "final_layer_norm", width);
}

bool one_table(const MarianConfig& c) { return c.share_encoder_decoder_embeddings && c.tie_word_embeddings; }

// One table for everything when embeddings are shared and tied. Where they are not tied, transformers keeps
// encoder, decoder and output apart even if they are called shared; older files then hold the shared one
// only.
void add_embeddings(TensorTable& table, const MarianConfig& c) {
  const std::string shared = "model.shared.weight", encoder = "model.encoder.embed_tokens.weight";
  const std::string decoder = "model.decoder.embed_tokens.weight", output = "lm_head.weight";
  if (one_table(c)) {
    table.rows.push_back(
        {shared, {c.vocab_size, c.d_model}, Init::embedding, true, true, {encoder, decoder, output}});
    return;
  }
  TensorRow source{encoder, {c.vocab_size, c.d_model}, Init::embedding};
  TensorRow target{decoder, {c.decoder_vocab_size, c.d_model}, Init::embedding};
  if (c.share_encoder_decoder_embeddings) {
    source.aliases.push_back(shared);
    target.aliases.push_back(shared);
  }
  if (c.tie_word_embeddings) target.tied.push_back(output);
  table.rows.push_back(source);
  table.rows.push_back(target);
  if (!c.tie_word_embeddings) table.rows.push_back({output, {c.decoder_vocab_size, c.d_model}, Init::xavier});
}

TensorTable tensor_table(const MarianConfig& c) {
  TensorTable table;
  add_embeddings(table, c);
  for (std::int64_t i = 0; i < c.encoder_layers; ++i) {
    const std::string layer = layer_name("encoder", i);
    add_attention(table, layer + "self_attn", c.d_model);
    add_feed_forward(table, layer, c.d_model, c.encoder_ffn_dim);
  }
  for (std::int64_t i = 0; i < c.decoder_layers; ++i) {
    const std::string layer = layer_name("decoder", i);
    add_attention(table, layer + "self_attn", c.d_model);
    add_attention(table, layer + "encoder_attn", c.d_model);
    add_feed_forward(table, layer, c.d_model, c.decoder_ffn_dim);
  }
  TensorRow bias{"final_logits_bias", {1, c.decoder_vocab_size}, Init::zeros, false};
  bias.required = false;
  table.rows.push_back(bias);
  table.computed = {"model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"};
  return table;
}

class Marian final : public AssembledEncoderDecoder {
 public:
  Marian(MarianConfig config, Weights weights) : config_(std::move(config)), weights_(std::move(weights)) {
    build();
  }

  std::string family() const override { return "marian"; }
  const std::vector<Parameter>& parameters() const override { return weights_.parameters(); }
  void save(const std::filesystem::path& directory, DType dtype) const override;
  std::optional<std::int64_t> max_positions() const override { return config_.max_position_embeddings; }
  std::int64_t vocab_size() const override { return config_.decoder_vocab_size; }
  std::int64_t decoder_start_id() const override { return config_.decoder_start_token_id; }
  std::int64_t pad_id() const override { return config_.pad_token_id; }
  std::int64_t eos_id() const override { return config_.eos_token_id; }

 private:
  void build();
  Residual residual(const std::string& norm) const {
    return {norm_part(weights_, norm, NormKind::layer, kNormEps), NormPlace::post, config_.dropout};
  }
  MultiHeadAttention attention(const std::string& file, const std::string& name, std::int64_t heads) const {
    return {name,
            linear_part(weights_, file + ".q_proj"),
            linear_part(weights_, file + ".k_proj"),
            linear_part(weights_, file + ".v_proj"),
            linear_part(weights_, file + ".out_proj"),
            heads,
            heads,
            config_.attention_dropout};
  }
  FeedForward feed_forward(const std::string& layer) const {
    return {linear_part(weights_, layer + "fc1"), linear_part(weights_, layer + "fc2"),
            activation_named(config_.activation_function), config_.activation_dropout};
  }
  std::string config_json(DType dtype) const;

  MarianConfig config_;
  Weights weights_;
};

void Marian::build() {
  const double scale = config_.scale_embedding ? std::sqrt(static_cast<double>(config_.d_model)) : 1.0;
  const auto positions = std::make_shared<AdditivePositions>(
      sinusoidal_table(config_.max_position_embeddings, config_.d_model, SinusoidLayout::halves));
  parts_.source = {{weights_["model.encoder.embed_tokens.weight"], scale, config_.pad_token_id}, positions};
  parts_.target = {{weights_["model.decoder.embed_tokens.weight"], scale, config_.pad_token_id}, positions};
  parts_.embedding_dropout = config_.dropout;
  for (std::int64_t i = 0; i < config_.encoder_layers; ++i) {
    const std::string file = layer_name("encoder", i), name = "encoder.layers." + std::to_string(i);
    parts_.encoder.layers.push_back(
        {name, attention(file + "self_attn", name + ".self_attn", config_.encoder_attention_heads),
         residual(file + "self_attn_layer_norm"), feed_forward(file), residual(file + "final_layer_norm")});
  }
  for (std::int64_t i = 0; i < config_.decoder_layers; ++i) {
    const std::string file = layer_name("decoder", i), name = "decoder.layers." + std::to_string(i);
    parts_.decoder.layers.push_back(
        {name, attention(file + "self_attn", name + ".self_attn", config_.decoder_attention_heads),
         residual(file + "self_attn_layer_norm"),
         attention(file + "encoder_attn", name + ".cross_attn", config_.decoder_attention_heads),
         residual(file + "encoder_attn_layer_norm"), feed_forward(file),
         residual(file + "final_layer_norm")});
  }
  const Tensor& bias = weights_["final_logits_bias"];
  parts_.output = {weights_["lm_head.weight"], reshape(bias, {bias.numel()})};
}

std::string Marian::config_json(DType dtype) const {
  const MarianConfig& c = config_;
  JsonWriter json(2);
  json.begin_object()
      .field("architectures", std::vector<std::string>{"MarianMTModel"})
      .field("model_type", "marian")
      .field("vocab_size", c.vocab_size)
      .field("decoder_vocab_size", c.decoder_vocab_size)
      .field("d_model", c.d_model)
      .field("encoder_layers", c.encoder_layers)
      .field("decoder_layers", c.decoder_layers)
      .field("encoder_attention_heads", c.encoder_attention_heads)
      .field("decoder_attention_heads", c.decoder_attention_heads)
      .field("encoder_ffn_dim", c.encoder_ffn_dim)
      .field("decoder_ffn_dim", c.decoder_ffn_dim)
      .field("max_position_embeddings", c.max_position_embeddings)
      .field("activation_function", c.activation_function)
      .field("dropout", c.dropout)
      .field("attention_dropout", c.attention_dropout)
      .field("activation_dropout", c.activation_dropout)
      .field("scale_embedding", c.scale_embedding)
      .field("share_encoder_decoder_embeddings", c.share_encoder_decoder_embeddings)
      .field("tie_word_embeddings", c.tie_word_embeddings)
      .field("is_encoder_decoder", true)
      .field("pad_token_id", c.pad_token_id)
      .field("eos_token_id", c.eos_token_id)
      .field("decoder_start_token_id", c.decoder_start_token_id)
      .field("forced_eos_token_id", c.forced_eos_token_id)
      .field("torch_dtype", dtype_in_config(dtype))
      .end_object();
  return json.text() + "\n";
}

void Marian::save(const std::filesystem::path& directory, DType dtype) const {
  write_file(directory / "config.json", config_json(dtype));
  JsonWriter generation(2);
  generation.begin_object()
      .field("decoder_start_token_id", config_.decoder_start_token_id)
      .field("eos_token_id", config_.eos_token_id)
      .field("pad_token_id", config_.pad_token_id)
      .field("forced_eos_token_id", config_.forced_eos_token_id)
      .field("bad_words_ids", std::vector<std::vector<std::int64_t>>{{config_.pad_token_id}})
      .field("max_length", config_.max_position_embeddings)
      .end_object();
  write_file(directory / "generation_config.json", generation.text() + "\n");
  save_safetensors(directory / "model.safetensors", weights_.stored(dtype));
}

}  // namespace

MarianConfig MarianConfig::parse(const Config& json) {
  MarianConfig c;
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.share_encoder_decoder_embeddings = json.boolean("share_encoder_decoder_embeddings", true);
  c.decoder_vocab_size = json.positive_integer("decoder_vocab_size", c.vocab_size);
  if (c.share_encoder_decoder_embeddings && c.decoder_vocab_size != c.vocab_size) {
    json.fail("decoder_vocab_size",
              "vocab_size " + std::to_string(c.vocab_size) + ", as embeddings are shared");
  }
  c.d_model = json.positive_integer("d_model", 1024);
  c.encoder_layers = json.positive_integer("encoder_layers", 12);
  c.decoder_layers = json.positive_integer("decoder_layers", 12);
  c.encoder_attention_heads = json.positive_integer("encoder_attention_heads", 16);
  c.decoder_attention_heads = json.positive_integer("decoder_attention_heads", 16);
  c.encoder_ffn_dim = json.positive_integer("encoder_ffn_dim", 4096);
  c.decoder_ffn_dim = json.positive_integer("decoder_ffn_dim", 4096);
  c.max_position_embeddings = json.positive_integer("max_position_embeddings", 1024);
  c.activation_function = json.string("activation_function", "gelu");
  c.dropout = probability(json, "dropout", 0.1);
  c.attention_dropout = probability(json, "attention_dropout", 0.0);
  c.activation_dropout = probability(json, "activation_dropout", 0.0);
  c.scale_embedding = json.boolean("scale_embedding", false);
  c.tie_word_embeddings = json.boolean("tie_word_embeddings", true);
  c.pad_token_id = json.integer("pad_token_id", 58100);
  c.eos_token_id = json.integer("eos_token_id", 0);
  c.decoder_start_token_id = json.integer("decoder_start_token_id", c.pad_token_id);
  c.forced_eos_token_id = json.optional_integer("forced_eos_token_id");
  check_heads(json, "encoder_attention_heads", c.d_model, c.encoder_attention_heads);
  check_heads(json, "decoder_attention_heads", c.d_model, c.decoder_attention_heads);
  check_id(json, "pad_token_id", c.pad_token_id, c.decoder_vocab_size);
  check_id(json, "eos_token_id", c.eos_token_id, c.decoder_vocab_size);
  check_id(json, "decoder_start_token_id", c.decoder_start_token_id, c.decoder_vocab_size);
  activation_named(c.activation_function);
  // Settings of training only, and those that MarianMTModel itself does not read.
  json.ignore({"add_bias_logits", "add_final_layer_norm", "classif_dropout", "classifier_dropout",
               "decoder_layerdrop", "encoder_layerdrop", "extra_pos_embeddings", "init_std", "is_decoder",
               "is_encoder_decoder", "normalize_before", "normalize_embedding", "num_hidden_layers",
               "static_position_embeddings"});
  refuse_unknown_keys(json);
  return c;
}

std::unique_ptr<EncoderDecoderModel> make_marian(const MarianConfig& config, Generator& generator) {
  return std::make_unique<Marian>(config, Weights::initialise(tensor_table(config), generator));
}

std::unique_ptr<EncoderDecoderModel> load_marian(const std::filesystem::path& directory, DType dtype) {
  const MarianConfig config = MarianConfig::parse(Config::load(directory / "config.json"));
  return std::make_unique<Marian>(config,
                                  Weights::load(TensorFiles::open(directory), tensor_table(config), dtype));
}

}  // namespace heed
