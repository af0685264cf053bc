// DeBERTa v2 and v3 (He et al. 2021, 2023): BERT's layers with disentangled attention in place of absolute
// positions, and, in the large models of v2, a convolution of the embeddings, added after the first layer.
#include <algorithm>
#include <cmath>

#include "heed/nn/attention.h"
#include "heed/nn/linear.h"
#include "heed/ops/activation.h"
#include "heed/ops/elementwise.h"
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/bert_common.h"

namespace heed {
namespace {

const BertLayerNames kDebertaNames{.query = "attention.self.query_proj",
                                   .key = "attention.self.key_proj",
                                   .value = "attention.self.value_proj"};

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
  return c;
}

EncoderHeads deberta_heads(const DebertaConfig& c) {
  const std::string lm = c.legacy ? "cls.predictions." : "lm_predictions.lm_head.";
  const std::string transform = lm + (c.legacy ? "transform." : "");
  return {
      .prefix = "deberta.",
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

// Keys and queries of the positions of all layers come after the layers, and the positions after them.
std::vector<DisentangledAttention> take_attention(const DebertaConfig& c, const BertBody& body,
                                                  WeightBuilder& w) {
  const auto positions = std::make_shared<DisentangledPositions>();
  std::vector<DisentangledAttention> layers;
  for (const BertLayer& layer : body.layers) {
    const std::string file = body.layer_name(std::ssize(layers)) + "attention.self.";
    const auto project = [&](const char* name, const Linear& content) {
      return c.shared ? content : w.linear(file + name, c.d_model, c.d_model);
    };
    DisentangledAttention self{layer.attention, positions};
    const double terms = 1.0 + c.c2p + c.p2c;
    self.attention.scale = 1.0 / std::sqrt(terms * static_cast<double>(c.d_model / c.heads));
    if (c.c2p) self.position_key = project("pos_key_proj", self.attention.k);
    if (c.p2c) self.position_query = project("pos_query_proj", self.attention.q);
    layers.push_back(std::move(self));
  }
  positions->table = w.tensor({.name = body.prefix + "encoder.rel_embeddings.weight",
                               .shape = {2 * c.buckets.span, c.d_model},
                               .init = Init::embedding});
  positions->buckets = c.buckets;
  positions->dropout = c.dropout;
  if (c.norms_positions)
    positions->norm = w.layer_norm(body.prefix + "encoder.LayerNorm", c.d_model, c.norm_eps);
  return layers;
}

ResidualStep take_convolution(const DebertaConfig& c, WeightBuilder& w, const std::string& file) {
  const Conv1d convolution{
      w.tensor({.name = file + "conv.weight", .shape = {c.d_model, c.d_model, c.convolution}}),
      w.bias(file + "conv.bias", c.d_model), 1, c.convolution / 2};
  ResidualStep step = post_norm("convolution", w.layer_norm(file + "LayerNorm", c.d_model, c.norm_eps),
                                InputConvolution{convolution, c.convolution_activation, c.dropout});
  step.clears_padding = true;
  return step;
}

std::unique_ptr<Model> build_deberta(const DebertaConfig& c, WeightBuilder& w) {
  const EncoderHeads heads = deberta_heads(c);
  const BertBody body = take_bert_body(c, heads, w, kDebertaNames);
  const std::vector<DisentangledAttention> attention = take_attention(c, body, w);
  EncoderParts parts{.embeddings = body.embeddings};
  for (std::size_t i = 0; i < attention.size(); ++i)
    parts.stack.layers.push_back(body.layers[i].with(attention[i], c.dropout));
  parts.clears_padding = true;
  if (c.convolution > 0)
    parts.stack.layers.front().steps.push_back(take_convolution(c, w, body.prefix + "encoder.conv."));
  parts.head = take_head(c, heads, w);
  return assemble_encoder(c, w.finish(), std::move(parts));
}

}  // namespace

Family deberta_family() { return family<parse_deberta, build_deberta>({"deberta-v2"}, {"DebertaV2"}); }

}  // namespace heed
