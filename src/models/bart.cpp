// The BART and mBART families: config, table of tensors, and the model built from parts.
#include "heed/models/bart.h"

#include <cmath>

#include "heed/ops/activation.h"
#include "heed/ops/shape.h"
#include "models/bart_layout.h"
#include "models/config_fields.h"
#include "models/encoder_decoder.h"
#include "models/rows.h"

namespace heed {
namespace {

constexpr double kBartNormEps = 1e-5;
constexpr std::int64_t kPositionOffset = 2;  // the first rows of the positions' tables are never used

struct BartConfig {
  BartLayout layout;
  std::int64_t vocab_size = 0, max_position_embeddings = 0;
  std::int64_t pad = 0, eos = 0, start = 0;
  double embedding_scale = 1.0;
  bool tied = true;
  bool is_mbart = false;

  static BartConfig parse(const Config& json);
};

BartConfig BartConfig::parse(const Config& json) {
  BartConfig c;
  const char* heads = common_or_own(json, "num_attention_heads", "encoder_attention_heads");
  c.is_mbart = json.required_string("model_type") == "mbart";
  c.vocab_size = json.positive_integer("vocab_size", 50265);
  c.max_position_embeddings = json.positive_integer("max_position_embeddings", 1024);
  BartLayout& l = c.layout;
  l.width = json.positive_integer(common_or_own(json, "hidden_size", "d_model"), 1024);
  l.encoder_layers = layer_count(json, common_or_own(json, "num_hidden_layers", "encoder_layers"), 12);
  l.decoder_layers = layer_count(json, "decoder_layers", 12);
  l.encoder_heads = json.positive_integer(heads, 16);
  l.decoder_heads = json.positive_integer("decoder_attention_heads", 16);
  l.encoder_inner = json.positive_integer("encoder_ffn_dim", 4096);
  l.decoder_inner = json.positive_integer("decoder_ffn_dim", 4096);
  l.activation = activation_setting(json, "activation_function", json.string("activation_function", "gelu"));
  l.dropout = probability(json, "dropout", 0.1);
  l.attention_dropout = probability(json, "attention_dropout", 0.0);
  l.activation_dropout = probability(json, "activation_dropout", 0.0);
  l.norm_place = c.is_mbart ? NormPlace::pre : NormPlace::post;
  if (json.boolean("scale_embedding", false)) c.embedding_scale = std::sqrt(static_cast<double>(l.width));
  c.tied = json.boolean("tie_word_embeddings", true);
  c.pad = json.integer("pad_token_id", 1);
  c.eos = single_id(json, "eos_token_id", 2);
  c.start = json.integer("decoder_start_token_id", c.eos);
  check_heads(json, heads, l.width, l.encoder_heads);
  check_heads(json, "decoder_attention_heads", l.width, l.decoder_heads);
  check_id(json, "pad_token_id", c.pad, c.vocab_size);
  check_id(json, "eos_token_id", c.eos, c.vocab_size);
  check_id(json, "decoder_start_token_id", c.start, c.vocab_size);
  // Settings of training and of other heads, and those of the first versions, which transformers does not
  // read either.
  json.ignore({"add_bias_logits", "add_final_layer_norm", "classif_dropout", "classifier_dropout",
               "decoder_layerdrop", "encoder_layerdrop", "extra_pos_embeddings",
               "force_bos_token_to_be_generated", "init_std", "is_decoder", "is_encoder_decoder",
               "normalize_before", "normalize_embedding", "static_position_embeddings"});
  ignore_common_keys(json);
  return c;
}

TensorTable bart_table(const Config& json) {
  const BartConfig c = BartConfig::parse(json);
  const std::int64_t width = c.layout.width;
  TensorTable table;
  table.prefix = "model.";
  TensorRow shared{"model.shared.weight", {c.vocab_size, width}, Init::embedding};
  shared.tied = {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"};
  if (c.tied) shared.tied.push_back("lm_head.weight");
  table.rows.push_back(shared);
  if (!c.tied) add_linear(table, "lm_head", c.vocab_size, width, false);
  for (const char* stack : {"model.encoder.", "model.decoder."}) {
    const std::string name = stack;
    table.rows.push_back({name + "embed_positions.weight",
                          {c.max_position_embeddings + kPositionOffset, width},
                          Init::embedding});
    add_norm(table, name + "layernorm_embedding", width);
    if (c.is_mbart) add_norm(table, name + "layer_norm", width);
  }
  add_bart_layers(table, c.layout);
  TensorRow bias{"final_logits_bias", {1, c.vocab_size}, Init::zeros, false};
  bias.required = false;
  table.rows.push_back(bias);
  return table;
}

class Bart : public AssembledEncoderDecoder {
 public:
  explicit Bart(ModelFiles files) : AssembledEncoderDecoder(std::move(files)) {
    const BartConfig c = BartConfig::parse(config());
    facts_ = {c.vocab_size, c.pad, c.eos, c.start, c.max_position_embeddings};
    parts_.source = embedding("model.encoder.", c);
    parts_.target = embedding("model.decoder.", c);
    build_bart_layers(parts_, c.layout, weights());
    if (c.is_mbart) {
      parts_.encoder.final_norm = norm("model.encoder.layer_norm");
      parts_.decoder.final_norm = norm("model.decoder.layer_norm");
    }
    parts_.output = {weights()["lm_head.weight"], reshape(weights()["final_logits_bias"], {c.vocab_size})};
  }

 private:
  Norm norm(const std::string& name) const {
    return norm_part(weights(), name, NormKind::layer, kBartNormEps);
  }
  EmbeddingParts embedding(const std::string& stack, const BartConfig& c) const {
    return {{weights()[stack + "embed_tokens.weight"], c.embedding_scale, c.pad},
            std::make_shared<AdditivePositions>(weights()[stack + "embed_positions.weight"], kPositionOffset),
            norm(stack + "layernorm_embedding")};
  }
};

/// mBART has no start token: the decoder begins with the last token of the labels, their language.
class Mbart final : public Bart {
 public:
  using Bart::Bart;

 private:
  Tensor decoder_inputs(const Tensor& labels, std::int64_t ignored) const override {
    Tensor inputs = Bart::decoder_inputs(labels, ignored);
    const std::int64_t length = labels.size(1);
    const std::int64_t* label = labels.data<std::int64_t>();
    for (std::int64_t b = 0; b < labels.size(0); ++b, label += length) {
      const auto absent = [&](std::int64_t id) { return id == ignored || id == pad_id(); };
      const auto count = length - std::count_if(label, label + length, absent);
      // Without a token in the row, the one before the first is its last, as transformers takes it.
      const std::int64_t last = label[count > 0 ? count - 1 : length - 1];
      inputs.data<std::int64_t>()[b * length] = last == ignored ? pad_id() : last;
    }
    return inputs;
  }
};

std::unique_ptr<EncoderDecoderModel> bart_of(ModelFiles files) {
  if (files.config.required_string("model_type") == "mbart") return std::make_unique<Mbart>(std::move(files));
  return std::make_unique<Bart>(std::move(files));
}

}  // namespace

std::unique_ptr<EncoderDecoderModel> load_bart(const std::filesystem::path& directory, DType dtype) {
  return bart_of(ModelFiles::load(directory, dtype, bart_table));
}

std::unique_ptr<EncoderDecoderModel> make_bart(const Config& config, Generator& generator) {
  return bart_of(ModelFiles::make(config, generator, bart_table));
}

}  // namespace heed
