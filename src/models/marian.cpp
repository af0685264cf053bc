// The Marian family: its config, its table of tensors, and the model built from parts.
#include "heed/models/marian.h"

#include <cmath>

#include "heed/ops/activation.h"
#include "heed/ops/shape.h"
#include "models/bart_layout.h"
#include "models/config_fields.h"
#include "models/encoder_decoder.h"

namespace heed {
namespace {

constexpr std::int64_t kMostMarianPositions = 65536;

BartLayout layout_of(const MarianConfig& c) {
  return {.width = c.d_model,
          .encoder_layers = c.encoder_layers,
          .decoder_layers = c.decoder_layers,
          .encoder_heads = c.encoder_attention_heads,
          .decoder_heads = c.decoder_attention_heads,
          .encoder_inner = c.encoder_ffn_dim,
          .decoder_inner = c.decoder_ffn_dim,
          .activation = activation_named(c.activation_function),
          .dropout = c.dropout,
          .attention_dropout = c.attention_dropout,
          .activation_dropout = c.activation_dropout};
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
  table.prefix = "model.";
  add_embeddings(table, c);
  add_bart_layers(table, layout_of(c));
  TensorRow bias{"final_logits_bias", {1, c.decoder_vocab_size}, Init::zeros, false};
  bias.required = false;
  table.rows.push_back(bias);
  table.computed = {"model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"};
  return table;
}

class Marian final : public AssembledEncoderDecoder {
 public:
  explicit Marian(ModelFiles files) : AssembledEncoderDecoder(std::move(files)) {
    const MarianConfig c = MarianConfig::parse(config());
    facts_ = {c.decoder_vocab_size, c.pad_token_id, c.eos_token_id, c.decoder_start_token_id,
              c.max_position_embeddings};
    const double scale = c.scale_embedding ? std::sqrt(static_cast<double>(c.d_model)) : 1.0;
    const auto positions = std::make_shared<AdditivePositions>(
        sinusoidal_table(c.max_position_embeddings, c.d_model, SinusoidLayout::halves));
    parts_.source = {{weights()["model.encoder.embed_tokens.weight"], scale, c.pad_token_id}, positions};
    parts_.target = {{weights()["model.decoder.embed_tokens.weight"], scale, c.pad_token_id}, positions};
    build_bart_layers(parts_, layout_of(c), weights());
    const Tensor& bias = weights()["final_logits_bias"];
    parts_.output = {weights()["lm_head.weight"], reshape(bias, {bias.numel()})};
  }
};

std::string config_json(const MarianConfig& c) {
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
      .end_object();
  return json.text();
}

std::string generation_json(const MarianConfig& c) {
  JsonWriter json(2);
  json.begin_object()
      .field("decoder_start_token_id", c.decoder_start_token_id)
      .field("eos_token_id", c.eos_token_id)
      .field("pad_token_id", c.pad_token_id)
      .field("forced_eos_token_id", c.forced_eos_token_id)
      .field("bad_words_ids", std::vector<std::vector<std::int64_t>>{{c.pad_token_id}})
      .field("max_length", c.max_position_embeddings)
      .end_object();
  return json.text() + "\n";
}

TensorTable marian_table(const Config& json) { return tensor_table(MarianConfig::parse(json)); }

}  // namespace

MarianConfig MarianConfig::parse(const Config& json) {
  MarianConfig c;
  const char* heads = common_or_own(json, "num_attention_heads", "encoder_attention_heads");
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.share_encoder_decoder_embeddings = json.boolean("share_encoder_decoder_embeddings", true);
  c.decoder_vocab_size = json.positive_integer("decoder_vocab_size", c.vocab_size);
  if (c.share_encoder_decoder_embeddings && c.decoder_vocab_size != c.vocab_size) {
    json.fail("decoder_vocab_size",
              "vocab_size " + std::to_string(c.vocab_size) + ", as embeddings are shared");
  }
  c.d_model = json.positive_integer(common_or_own(json, "hidden_size", "d_model"), 1024);
  c.encoder_layers = layer_count(json, common_or_own(json, "num_hidden_layers", "encoder_layers"), 12);
  c.decoder_layers = layer_count(json, "decoder_layers", 12);
  c.encoder_attention_heads = json.positive_integer(heads, 16);
  c.decoder_attention_heads = json.positive_integer("decoder_attention_heads", 16);
  c.encoder_ffn_dim = json.positive_integer("encoder_ffn_dim", 4096);
  c.decoder_ffn_dim = json.positive_integer("decoder_ffn_dim", 4096);
  c.max_position_embeddings = json.positive_integer("max_position_embeddings", 1024);
  if (c.max_position_embeddings > kMostMarianPositions)  // their table is made before a token is seen
    json.fail("max_position_embeddings", "at most " + std::to_string(kMostMarianPositions));
  c.activation_function = json.string("activation_function", "gelu");
  c.dropout = probability(json, "dropout", 0.1);
  c.attention_dropout = probability(json, "attention_dropout", 0.0);
  c.activation_dropout = probability(json, "activation_dropout", 0.0);
  c.scale_embedding = json.boolean("scale_embedding", false);
  c.tie_word_embeddings = json.boolean("tie_word_embeddings", true);
  c.pad_token_id = json.integer("pad_token_id", 58100);
  c.eos_token_id = single_id(json, "eos_token_id", 0);
  c.decoder_start_token_id = json.integer("decoder_start_token_id", c.pad_token_id);
  if (json.has("forced_eos_token_id"))
    c.forced_eos_token_id = single_id(json, "forced_eos_token_id", c.eos_token_id);
  check_heads(json, heads, c.d_model, c.encoder_attention_heads);
  check_heads(json, "decoder_attention_heads", c.d_model, c.decoder_attention_heads);
  check_id(json, "pad_token_id", c.pad_token_id, c.decoder_vocab_size);
  check_id(json, "eos_token_id", c.eos_token_id, c.decoder_vocab_size);
  check_id(json, "decoder_start_token_id", c.decoder_start_token_id, c.decoder_vocab_size);
  activation_setting(json, "activation_function", c.activation_function);
  // Settings of training only, and those that MarianMTModel itself does not read.
  json.ignore({"add_bias_logits", "add_final_layer_norm", "classif_dropout", "classifier_dropout",
               "decoder_layerdrop", "encoder_layerdrop", "extra_pos_embeddings", "init_std", "is_decoder",
               "is_encoder_decoder", "normalize_before", "normalize_embedding",
               "static_position_embeddings"});
  ignore_common_keys(json);
  return c;
}

std::unique_ptr<EncoderDecoderModel> make_marian(const MarianConfig& config, Generator& generator) {
  ModelFiles files =
      ModelFiles::make(Config::parse(config_json(config), "config.json"), generator, marian_table);
  files.generation = generation_json(config);
  return std::make_unique<Marian>(std::move(files));
}

std::unique_ptr<EncoderDecoderModel> load_marian(const std::filesystem::path& directory, DType dtype) {
  return std::make_unique<Marian>(ModelFiles::load(directory, dtype, marian_table));
}

}  // namespace heed
