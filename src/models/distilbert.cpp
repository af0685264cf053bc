// DistilBERT: its config, its table of tensors and its heads.
#include "heed/models/distilbert.h"

#include "heed/nn/positions.h"
#include "models/bert_layout.h"
#include "models/config_fields.h"
#include "models/rows.h"

namespace heed {
namespace {

const std::string kDistilbertOutput = "vocab_projector",
                  kDistilbertWords = "distilbert.embeddings.word_embeddings.weight";

std::string distilbert_prefix(const EncoderConfig& c) {
  return c.head == EncoderHead::none ? "" : "distilbert.";
}

std::string distilbert_layer(const EncoderConfig& c, std::int64_t layer) {
  return distilbert_prefix(c) + "transformer.layer." + std::to_string(layer) + ".";
}

EncoderConfig parse_distilbert(const Config& json) {
  EncoderConfig c = EncoderConfig::parse_common(json);
  const char* heads = common_or_own(json, "num_attention_heads", "n_heads");
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.width = json.positive_integer(common_or_own(json, "hidden_size", "dim"), 768);
  c.embedding_width = c.width;
  c.layers = layer_count(json, common_or_own(json, "num_hidden_layers", "n_layers"), 6);
  c.heads = json.positive_integer(heads, 12);
  c.inner = json.positive_integer("hidden_dim", 3072);
  c.positions = json.positive_integer("max_position_embeddings", 512);
  c.activation = activation_setting(json, "activation", json.string("activation", "gelu"));
  c.dropout = probability(json, "dropout", 0.1);
  c.attention_dropout = probability(json, "attention_dropout", 0.1);
  const double sequence = probability(json, "seq_classif_dropout", 0.2),
               span = probability(json, "qa_dropout", 0.1);
  c.head_dropout = c.head == EncoderHead::sequence ? sequence
                   : c.head == EncoderHead::span   ? span
                                                   : c.dropout;
  json.ignore({"sinusoidal_pos_embds"});  // how a new table begins; files hold it
  c.padding = padding_setting(json, 0, c.vocab_size);
  check_heads(json, heads, c.width, c.heads);
  ignore_common_keys(json);
  return c;
}

EncoderTable distilbert_table(const EncoderConfig& c, const HasTensor&) {
  EncoderTable encoder;
  TensorTable& table = encoder.table;
  add_bert_embeddings(table, c, distilbert_prefix(c));
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = distilbert_layer(c, i);
    for (const char* part : {"q_lin", "k_lin", "v_lin", "out_lin"})
      add_linear(table, layer + "attention." + part, c.width, c.width);
    add_norm(table, layer + "sa_layer_norm", c.width);
    add_linear(table, layer + "ffn.lin1", c.inner, c.width);
    add_linear(table, layer + "ffn.lin2", c.width, c.inner);
    add_norm(table, layer + "output_layer_norm", c.width);
  }
  encoder.body_rows = table.rows.size();
  if (c.head == EncoderHead::masked_lm) {
    add_linear(table, "vocab_transform", c.width, c.width);
    add_norm(table, "vocab_layer_norm", c.width);
    add_vocabulary_head(table, c, kDistilbertOutput, kDistilbertOutput + ".bias", kDistilbertWords);
  }
  if (c.head == EncoderHead::sequence) add_linear(table, "pre_classifier", c.width, c.width);
  add_label_head(table, c, "classifier");
  add_other_names(encoder, "distilbert.",
                  {"embeddings.position_ids", "vocab_transform.weight", "vocab_transform.bias",
                   "vocab_layer_norm.weight", "vocab_layer_norm.bias", kDistilbertOutput + ".weight",
                   kDistilbertOutput + ".bias", "pre_classifier.weight", "pre_classifier.bias",
                   "classifier.weight", "classifier.bias", "qa_outputs.weight", "qa_outputs.bias"});
  return encoder;
}

EncoderParts build_distilbert(const EncoderConfig& c, const Weights& weights) {
  EncoderParts parts;
  build_bert_embeddings(parts, c, weights, distilbert_prefix(c));
  const auto part = [&](const std::string& name) { return linear_part(weights, name); };
  const auto norm = [&](const std::string& name) {
    return norm_part(weights, name, NormKind::layer, c.norm_eps);
  };
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string file = distilbert_layer(c, i), attention = file + "attention.";
    const std::string name = "encoder.layers." + std::to_string(i);
    parts.encoder.layers.push_back(
        {name,
         {name + ".self_attn", part(attention + "q_lin"), part(attention + "k_lin"),
          part(attention + "v_lin"), part(attention + "out_lin"), c.heads, c.heads, c.attention_dropout},
         {norm(file + "sa_layer_norm"), NormPlace::post, 0.0},
         {part(file + "ffn.lin1"), part(file + "ffn.lin2"), c.activation, 0.0},
         {norm(file + "output_layer_norm"), NormPlace::post, c.dropout}});
  }
  if (c.head == EncoderHead::masked_lm) {
    EncoderHeadParts head;
    head.dense = part("vocab_transform");
    head.activation = c.activation;
    head.norm = norm("vocab_layer_norm");
    head.output = linear_part(weights, kDistilbertOutput);
    parts.head = head;
  } else if (c.head != EncoderHead::none) {
    parts.head = build_label_head(c, weights, "classifier");
    parts.head->dropout = c.head_dropout;
    if (c.head == EncoderHead::sequence) {
      parts.head->dense = part("pre_classifier");
      parts.head->activation = Activation::relu;
    }
  }
  return parts;
}

constexpr EncoderFamily kDistilbert{parse_distilbert, distilbert_table, build_distilbert};

}  // namespace

std::unique_ptr<EncoderModel> make_distilbert(const Config& config, Generator& generator) {
  std::unique_ptr<EncoderModel> model = make_encoder(kDistilbert, config, generator);
  if (!config.boolean("sinusoidal_pos_embds", false)) return model;
  for (const Parameter& p : model->parameters()) {
    if (!p.name.ends_with("position_embeddings.weight")) continue;
    p.tensor.detach().copy_from(
        sinusoidal_table(p.tensor.size(0), p.tensor.size(1), SinusoidLayout::interleaved));
  }
  return model;
}

std::unique_ptr<EncoderModel> load_distilbert(const std::filesystem::path& directory, DType dtype) {
  return load_encoder(kDistilbert, directory, dtype);
}

}  // namespace heed
