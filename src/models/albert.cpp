// ALBERT: its config, its table of tensors and its heads.
#include "heed/models/albert.h"

#include "models/bert_layout.h"
#include "models/config_fields.h"
#include "models/rows.h"

namespace heed {
namespace {

const std::string kAlbertOutput = "predictions.decoder", kAlbertOutputBias = "predictions.bias",
                  kAlbertWords = "albert.embeddings.word_embeddings.weight";

std::string albert_prefix(const EncoderConfig& c) { return c.head == EncoderHead::none ? "" : "albert."; }

std::string albert_layer(const EncoderConfig& c, std::int64_t group, std::int64_t layer) {
  return albert_prefix(c) + "encoder.albert_layer_groups." + std::to_string(group) + ".albert_layers." +
         std::to_string(layer) + ".";
}

EncoderConfig parse_albert(const Config& json) {
  EncoderConfig c = EncoderConfig::parse_common(json);
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.width = json.positive_integer("hidden_size", 4096);
  c.embedding_width = json.positive_integer("embedding_size", 128);
  c.layers = layer_count(json, "num_hidden_layers", 12);
  c.groups = json.positive_integer("num_hidden_groups", 1);
  c.group_layers = json.positive_integer("inner_group_num", 1);
  c.heads = json.positive_integer("num_attention_heads", 64);
  c.inner = json.positive_integer("intermediate_size", 16384);
  c.positions = json.positive_integer("max_position_embeddings", 512);
  c.types = json.positive_integer("type_vocab_size", 2);
  c.activation = activation_setting(json, "hidden_act", json.string("hidden_act", "gelu_new"));
  c.norm_eps = norm_epsilon(json, "layer_norm_eps", 1e-12);
  c.dropout = probability(json, "hidden_dropout_prob", 0.0);
  c.attention_dropout = probability(json, "attention_probs_dropout_prob", 0.0);
  c.head_dropout = probability(json, "classifier_dropout_prob", 0.1);
  c.padding = padding_setting(json, 0, c.vocab_size);
  check_heads(json, "num_attention_heads", c.width, c.heads);
  json.ignore({"down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks"});
  ignore_common_keys(json);
  return c;
}

void add_layer(TensorTable& table, const EncoderConfig& c, const std::string& layer) {
  for (const char* part : {"query", "key", "value", "dense"})
    add_linear(table, layer + "attention." + part, c.width, c.width);
  add_norm(table, layer + "attention.LayerNorm", c.width);
  add_linear(table, layer + "ffn", c.inner, c.width);
  add_linear(table, layer + "ffn_output", c.width, c.inner);
  add_norm(table, layer + "full_layer_layer_norm", c.width);
}

EncoderTable albert_table(const EncoderConfig& c, const HasTensor& has) {
  EncoderTable encoder;
  TensorTable& table = encoder.table;
  add_bert_embeddings(table, c, albert_prefix(c));
  add_linear(table, albert_prefix(c) + "encoder.embedding_hidden_mapping_in", c.width, c.embedding_width);
  for (std::int64_t group = 0; group < c.groups; ++group) {
    for (std::int64_t i = 0; i < c.group_layers; ++i) add_layer(table, c, albert_layer(c, group, i));
  }
  const bool pooler = has("pooler.weight") || has("albert.pooler.weight");
  if (c.head == EncoderHead::sequence || (c.head == EncoderHead::none && pooler))
    add_linear(table, albert_prefix(c) + "pooler", c.width, c.width);
  encoder.body_rows = table.rows.size();
  if (c.head == EncoderHead::masked_lm) {
    add_linear(table, "predictions.dense", c.embedding_width, c.width);
    add_norm(table, "predictions.LayerNorm", c.embedding_width);
    add_vocabulary_head(table, c, kAlbertOutput, kAlbertOutputBias, kAlbertWords);
  }
  add_label_head(table, c, "classifier");
  add_other_names(encoder, "albert.",
                  {"embeddings.position_ids", "embeddings.token_type_ids", "pooler.weight", "pooler.bias",
                   "predictions.dense.weight", "predictions.dense.bias", "predictions.LayerNorm.weight",
                   "predictions.LayerNorm.bias", kAlbertOutput + ".weight", kAlbertOutput + ".bias",
                   kAlbertOutputBias, "sop_classifier.classifier.weight", "sop_classifier.classifier.bias",
                   "classifier.weight", "classifier.bias", "qa_outputs.weight", "qa_outputs.bias"});
  return encoder;
}

EncoderLayer layer_part(const EncoderConfig& c, const Weights& weights, const std::string& file,
                        const std::string& name) {
  const auto part = [&](const std::string& tensor) { return linear_part(weights, file + tensor); };
  const auto norm = [&](const std::string& tensor) {
    return norm_part(weights, file + tensor, NormKind::layer, c.norm_eps);
  };
  return {name,
          {name + ".self_attn", part("attention.query"), part("attention.key"), part("attention.value"),
           part("attention.dense"), c.heads, c.heads, c.attention_dropout},
          {norm("attention.LayerNorm"), NormPlace::post, c.dropout},
          {part("ffn"), part("ffn_output"), c.activation, 0.0},
          {norm("full_layer_layer_norm"), NormPlace::post, 0.0}};
}

EncoderParts build_albert(const EncoderConfig& c, const Weights& weights) {
  EncoderParts parts;
  build_bert_embeddings(parts, c, weights, albert_prefix(c));
  parts.projection = linear_part(weights, albert_prefix(c) + "encoder.embedding_hidden_mapping_in");
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::int64_t group = i * c.groups / c.layers;
    for (std::int64_t inner = 0; inner < c.group_layers; ++inner) {
      const std::string name = "encoder.layers." + std::to_string(parts.encoder.layers.size());
      parts.encoder.layers.push_back(layer_part(c, weights, albert_layer(c, group, inner), name));
    }
  }
  const std::string pooler = albert_prefix(c) + "pooler";
  if (weights.find(pooler + ".weight").defined()) parts.pooler = linear_part(weights, pooler);
  if (c.head == EncoderHead::masked_lm) {
    EncoderHeadParts head;
    head.dense = linear_part(weights, "predictions.dense");
    head.activation = c.activation;
    head.norm = norm_part(weights, "predictions.LayerNorm", NormKind::layer, c.norm_eps);
    head.output = linear_part(weights, kAlbertOutput);
    parts.head = head;
  } else if (c.head != EncoderHead::none) {
    parts.head = build_label_head(c, weights, "classifier");
    if (c.head == EncoderHead::sequence) {
      parts.head->dense = parts.pooler;
      parts.head->activation = Activation::tanh;
    }
  }
  return parts;
}

constexpr EncoderFamily kAlbert{parse_albert, albert_table, build_albert};

}  // namespace

std::unique_ptr<EncoderModel> make_albert(const Config& config, Generator& generator) {
  return make_encoder(kAlbert, config, generator);
}

std::unique_ptr<EncoderModel> load_albert(const std::filesystem::path& directory, DType dtype) {
  return load_encoder(kAlbert, directory, dtype);
}

}  // namespace heed
