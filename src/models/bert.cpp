// BERT: its table of tensors and its heads.
#include "models/bert_common.h"
#include "models/config_fields.h"
#include "models/families.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

const std::string kBertOutput = "cls.predictions.decoder", kBertOutputBias = "cls.predictions.bias",
                  kTransform = "cls.predictions.transform.",
                  kBertWords = "bert.embeddings.word_embeddings.weight";

// A bare model's tensors have no bert_prefix, those under a head have one.
std::string bert_prefix(const EncoderConfig& c) { return c.head == EncoderHead::none ? "" : "bert."; }

EncoderConfig parse_bert(const Config& json) {
  EncoderConfig c = parse_bert_settings(json, 0);
  json.ignore({"pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
               "pooler_type"});
  ignore_common_keys(json);
  return c;
}

TensorTable bert_table(const EncoderConfig& c, const HasTensor& has) {
  TensorTable table;
  const bool pooler = has("pooler.dense.weight") || has("bert.pooler.dense.weight");
  const bool bare_with_pooler = c.head == EncoderHead::none && pooler;
  add_bert_body(table, c, bert_prefix(c), c.head == EncoderHead::sequence || bare_with_pooler);
  table.body_rows = table.rows.size();
  table.architecture = c.architecture;
  if (c.head == EncoderHead::masked_lm) {
    add_linear(table, kTransform + "dense", c.d_model, c.d_model);
    add_norm(table, kTransform + "LayerNorm", c.d_model);
    add_vocabulary_head(table, c, kBertOutput, kBertOutputBias, kBertWords);
  }
  add_label_head(table, c, "classifier");
  add_other_names(
      table, "bert.",
      {"embeddings.position_ids", "embeddings.token_type_ids", "pooler.dense.weight", "pooler.dense.bias",
       kTransform + "dense.weight", kTransform + "dense.bias", kTransform + "LayerNorm.weight",
       kTransform + "LayerNorm.bias", kBertOutput + ".weight", kBertOutput + ".bias", kBertOutputBias,
       "cls.seq_relationship.weight", "cls.seq_relationship.bias", "classifier.weight", "classifier.bias",
       "qa_outputs.weight", "qa_outputs.bias"});
  return table;
}

std::unique_ptr<Model> build_bert(const EncoderConfig& c, ModelFiles files) {
  const Weights& weights = files.weights;
  EncoderParts parts = bert_body(c, weights, bert_prefix(c));
  if (c.head == EncoderHead::masked_lm) {
    EncoderHeadParts head;
    head.dense = linear_part(weights, kTransform + "dense");
    head.activation = c.activation;
    head.norm = norm_part(weights, kTransform + "LayerNorm", NormKind::layer, c.norm_eps);
    head.output = linear_part(weights, kBertOutput);
    parts.head = head;
  } else if (c.head != EncoderHead::none) {
    parts.head = label_head(c, weights, "classifier");
    if (c.head == EncoderHead::sequence) {  // the pooler is this head's first layer
      parts.head->dense = parts.pooler;
      parts.head->activation = Activation::tanh;
    }
  }
  return assemble_encoder(c, std::move(files), std::move(parts));
}

}  // namespace

Family bert_family() { return family<parse_bert, bert_table, build_bert>({"bert"}); }

}  // namespace heed
