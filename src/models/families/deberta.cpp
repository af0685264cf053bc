// DeBERTa v2 and v3 (He et al. 2021, 2023): BERT's layers with disentangled attention in place of absolute
// positions, and, in the large models of v2, a convolution of the embeddings, added after the first layer.
#include <algorithm>
#include <cmath>

#include "heed/nn/convolution.h"
#include "heed/nn/disentangled.h"
#include "heed/ops/activation.h"
#include "heed/ops/elementwise.h"
#include "models/config_fields.h"
#include "models/encoder_heads.h"
#include "models/families.h"
#include "models/families/bert_common.h"
#include "models/position_limit.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

const std::string kDeberta = "deberta.", kDebertaPositions = "encoder.rel_embeddings.weight",
                  kDebertaNorm = "encoder.LayerNorm";
const BertLayerNames kDebertaNames{.query = "attention.self.query_proj",
                                   .key = "attention.self.key_proj",
                                   .value = "attention.self.value_proj"};
const std::string kPositionKey = "attention.self.pos_key_proj",
                  kPositionQuery = "attention.self.pos_query_proj";
const std::string kConvolution = "encoder.conv.";

struct DebertaConfig : EncoderConfig {
  DisentangledBuckets buckets = {};
  bool c2p = false, p2c = false;
  bool shared = false;  // keys and queries of positions are projected as those of the content
  bool norms_positions = false;
  bool legacy = true;  // the masked_lm head of the first versions
  Activation pooler_activation = Activation::gelu;
  double pooler_dropout = 0.0;
  std::int64_t convolution = 0;  // width of the convolution after the first layer; 0: none
  Activation convolution_activation = Activation::tanh;
};

// activation(dropout(convolution of the layer's input)), whatever the layer has computed before.
struct InputConvolution {
  Conv1d convolution;
  Activation activation;
  double dropout;

  Tensor operator()(const Tensor&, Pass& pass, PartState*) const {
    return activate(apply_dropout(convolution(pass.layer_input), dropout, pass.context), activation);
  }
};

// "p2c|c2p", or a list of such names.
void parse_position_terms(const Config& json, DebertaConfig& c) {
  std::string names;
  for (const std::string& name : json.strings("pos_att_type")) names += name + "|";
  c.c2p = names.find("c2p") != std::string::npos;
  c.p2c = names.find("p2c") != std::string::npos;
  if (!c.c2p && !c.p2c) json.fail("pos_att_type", "c2p, p2c or both");
  if (!json.boolean("relative_attention", false)) json.fail("relative_attention", "true");
  c.shared = json.boolean("share_att_key", false);
  c.norms_positions = json.string("norm_rel_ebd", "none").find("layer_norm") != std::string::npos;
  const std::int64_t longest = json.integer("max_relative_positions", -1);
  const std::int64_t buckets = json.integer("position_buckets", -1);
  if (longest > kMostPositions)
    json.fail("max_relative_positions", "at most " + std::to_string(kMostPositions));
  if (buckets > kMostPositions) json.fail("position_buckets", "at most " + std::to_string(kMostPositions));
  c.buckets.max_distance = longest < 1 ? std::min(*c.max_positions, kMostPositions) : longest;
  c.buckets.buckets = std::max<std::int64_t>(buckets, 0);
  c.buckets.span = c.buckets.buckets > 0 ? c.buckets.buckets : c.buckets.max_distance;
  if (c.buckets.buckets > 0 && (c.buckets.buckets < 4 || c.buckets.max_distance - 1 <= c.buckets.buckets / 2))
    json.fail("position_buckets", "at least 4, and a half of them below the largest distance");
}

DebertaConfig parse_deberta(const Config& json) {
  DebertaConfig c{parse_bert_settings(
      json, {.token_types = 0, .d_model = 1536, .layers = 24, .heads = 24, .d_ff = 6144, .norm_eps = 1e-7})};
  if (!json.boolean("position_biased_input", true)) c.positions = 0;
  parse_position_terms(json, c);
  c.legacy = json.boolean("legacy", true);
  // The new head always multiplies by the word embeddings; transformers only loads it with the key false.
  if (!c.legacy) c.tied = true;
  c.pooler_activation =
      activation_setting(json, "pooler_hidden_act", json.string("pooler_hidden_act", "gelu"));
  c.pooler_dropout = probability(json, "pooler_dropout", 0.0);
  c.head_dropout = c.head == EncoderHead::sequence ? probability(json, "cls_dropout", c.dropout) : c.dropout;
  for (const char* key : {"embedding_size", "pooler_hidden_size"}) {
    if (json.positive_integer(key, c.d_model) != c.d_model) json.fail(key, "the same as hidden_size");
  }
  c.convolution = json.integer("conv_kernel_size", 0);
  if (c.convolution < 0 || (c.convolution > 0 && c.convolution % 2 == 0) || c.convolution > kMostPositions)
    json.fail("conv_kernel_size", "0 or an odd number of tokens, at most " + std::to_string(kMostPositions));
  c.convolution_activation = activation_setting(json, "conv_act", json.string("conv_act", "tanh"));
  if (json.integer("conv_groups", 1) != 1) json.fail("conv_groups", "1");
  if (json.positive_integer("attention_head_size", c.d_model / c.heads) != c.d_model / c.heads)
    json.fail("attention_head_size", "hidden_size / num_attention_heads");
  json.ignore(
      {"cls_dropout", "summary_activation", "summary_last_dropout", "summary_type", "summary_use_proj"});
  ignore_common_keys(json);
  return c;
}

EncoderHeads deberta_heads(const DebertaConfig& c) {
  const std::string lm = c.legacy ? "cls.predictions." : "lm_predictions.lm_head.";
  const std::string transform = lm + (c.legacy ? "transform." : "");
  return {
      .prefix = kDeberta,
      .words = kDeberta + "embeddings.word_embeddings.weight",
      .masked_lm = {.dense = transform + "dense",
                    .activation = c.activation,
                    .norm = transform + "LayerNorm",
                    .output = lm + "decoder"},
      .output_bias = lm + "bias",
      .sequence = {.first_dropout = c.pooler_dropout,
                   .dense = "pooler.dense",
                   .activation = c.pooler_activation,
                   .dropout = c.head_dropout,
                   .output = "classifier"},
      .token = {.dropout = c.head_dropout, .output = "classifier"},
      .unused = {"lm_predictions.lm_head", "lm_predictions.lm_head.dense", "lm_predictions.lm_head.LayerNorm",
                 "mask_predictions.dense", "mask_predictions.LayerNorm", "mask_predictions.classifier",
                 "embeddings.position_embeddings", "cls.predictions", "cls.predictions.decoder",
                 "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"}};
}

TensorTable deberta_table(const DebertaConfig& c, const HasTensor&) {
  TensorTable table;
  const std::string prefix = body_prefix(c, kDeberta);
  add_bert_body(table, c, prefix, false, kDebertaNames);
  for (std::int64_t i = 0; i < c.layers && !c.shared; ++i) {
    if (c.c2p) add_linear(table, bert_layer(prefix, i) + kPositionKey, c.d_model, c.d_model);
    if (c.p2c) add_linear(table, bert_layer(prefix, i) + kPositionQuery, c.d_model, c.d_model);
  }
  table.rows.push_back({prefix + kDebertaPositions, {2 * c.buckets.span, c.d_model}, Init::embedding});
  if (c.norms_positions) add_norm(table, prefix + kDebertaNorm, c.d_model);
  if (c.convolution > 0) {
    const std::string name = prefix + kConvolution;
    table.rows.push_back({name + "conv.weight", {c.d_model, c.d_model, c.convolution}, Init::xavier});
    table.rows.push_back({name + "conv.bias", {c.d_model}, Init::zeros});
    add_norm(table, name + "LayerNorm", c.d_model);
  }
  add_head(table, c, deberta_heads(c));
  return table;
}

std::unique_ptr<Model> build_deberta(const DebertaConfig& c, ModelFiles files) {
  const Weights& weights = files.weights;
  const std::string prefix = body_prefix(c, kDeberta);
  DisentangledPositions positions{weights[prefix + kDebertaPositions], c.buckets, {}, c.dropout};
  if (c.norms_positions)
    positions.norm = norm_part(weights, prefix + kDebertaNorm, NormKind::layer, c.norm_eps);
  const auto shared = std::make_shared<const DisentangledPositions>(std::move(positions));
  const auto self = [&](MultiHeadAttention attention, const std::string& file) {
    const double terms = 1.0 + c.c2p + c.p2c;
    attention.scale = 1.0 / std::sqrt(terms * static_cast<double>(c.d_model / c.heads));
    DisentangledAttention part{std::move(attention), shared};
    if (c.c2p) part.position_key = c.shared ? part.attention.k : linear_part(weights, file + kPositionKey);
    if (c.p2c)
      part.position_query = c.shared ? part.attention.q : linear_part(weights, file + kPositionQuery);
    return Part(std::move(part));
  };
  EncoderParts parts = bert_body(c, weights, prefix, kDebertaNames, self);
  parts.clears_padding = true;
  if (c.convolution > 0) {
    const std::string name = prefix + kConvolution;
    Conv1d convolution{weights[name + "conv.weight"], weights[name + "conv.bias"], 1, c.convolution / 2};
    ResidualStep step =
        post_norm("convolution", norm_part(weights, name + "LayerNorm", NormKind::layer, c.norm_eps),
                  InputConvolution{std::move(convolution), c.convolution_activation, c.dropout});
    step.clears_padding = true;
    parts.stack.layers.front().steps.push_back(std::move(step));
  }
  parts.head = head_parts(c, weights, deberta_heads(c));
  return assemble_encoder(c, std::move(files), std::move(parts));
}

}  // namespace

Family deberta_family() {
  return family<parse_deberta, deberta_table, build_deberta>({"deberta-v2"}, {"DebertaV2"});
}

}  // namespace heed
