// The BART and mBART families: config, table of tensors, and the model built from parts.
#include <cmath>

#include "heed/ops/activation.h"
#include "heed/ops/shape.h"
#include "models/bart_common.h"
#include "models/config_fields.h"
#include "models/families.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

constexpr double kBartNormEps = 1e-5;
constexpr std::int64_t kPositionOffset = 2;  // the first rows of the positions' tables are never used

struct BartConfig {
  BartLayers layers;
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
  BartLayers& l = c.layers;
  l.d_model = json.positive_integer(common_or_own(json, "hidden_size", "d_model"), 1024);
  l.encoder_layers = layer_count(json, common_or_own(json, "num_hidden_layers", "encoder_layers"), 12);
  l.decoder_layers = layer_count(json, "decoder_layers", 12);
  l.encoder_heads = json.positive_integer(heads, 16);
  l.decoder_heads = json.positive_integer("decoder_attention_heads", 16);
  l.encoder_d_ff = json.positive_integer("encoder_ffn_dim", 4096);
  l.decoder_d_ff = json.positive_integer("decoder_ffn_dim", 4096);
  l.activation = activation_setting(json, "activation_function", json.string("activation_function", "gelu"));
  l.dropout = probability(json, "dropout", 0.1);
  l.attention_dropout = probability(json, "attention_dropout", 0.0);
  l.activation_dropout = probability(json, "activation_dropout", 0.0);
  l.norm_first = c.is_mbart;
  if (json.boolean("scale_embedding", false)) c.embedding_scale = std::sqrt(static_cast<double>(l.d_model));
  c.tied = json.boolean("tie_word_embeddings", true);
  c.pad = json.integer("pad_token_id", 1);
  c.eos = single_id(json, "eos_token_id", 2);
  c.start = json.integer("decoder_start_token_id", c.eos);
  check_heads(json, heads, l.d_model, l.encoder_heads);
  check_heads(json, "decoder_attention_heads", l.d_model, l.decoder_heads);
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

TensorTable bart_table(const BartConfig& c, const HasTensor&) {
  const std::int64_t width = c.layers.d_model;
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
  add_bart_layers(table, c.layers);
  TensorRow bias{"final_logits_bias", {1, c.vocab_size}, Init::zeros, false};
  bias.required = false;
  table.rows.push_back(bias);
  return table;
}

std::unique_ptr<Model> build_bart(const BartConfig& c, ModelFiles files) {
  const Weights& weights = files.weights;
  const auto norm = [&](const std::string& name) {
    return norm_part(weights, name, NormKind::layer, kBartNormEps);
  };
  const auto embeddings = [&](const std::string& stack) -> InputEmbeddings {
    return {.tokens = {weights[stack + "embed_tokens.weight"], c.embedding_scale, c.pad},
            .positions = AdditivePositions(weights[stack + "embed_positions.weight"], kPositionOffset),
            .norm = norm(stack + "layernorm_embedding"),
            .dropout = c.layers.dropout};
  };
  EncoderDecoderParts parts;
  parts.source = embeddings("model.encoder.");
  parts.decoder.embeddings = embeddings("model.decoder.");
  build_bart_layers(parts, c.layers, weights);
  if (c.is_mbart) {
    parts.encoder.final_norm = norm("model.encoder.layer_norm");
    parts.decoder.stack.final_norm = norm("model.decoder.layer_norm");
  }
  parts.decoder.output = {weights["lm_head.weight"], reshape(weights["final_logits_bias"], {c.vocab_size})};
  return assemble_encoder_decoder(std::move(files), std::move(parts),
                                  {.vocab_size = c.vocab_size,
                                   .pad_id = c.pad,
                                   .eos_id = c.eos,
                                   .decoder_start_id = c.start,
                                   .max_positions = c.max_position_embeddings,
                                   .starts_with_last_label = c.is_mbart});
}

}  // namespace

Family bart_family() { return family<&BartConfig::parse, bart_table, build_bart>({"bart", "mbart"}); }

}  // namespace heed
