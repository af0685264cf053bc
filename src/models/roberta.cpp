// RoBERTa: its table of tensors and its heads.
#include "models/bert_common.h"
#include "models/config_fields.h"
#include "models/families.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

const std::string kRobertaOutput = "lm_head.decoder", kRobertaOutputBias = "lm_head.bias",
                  kRobertaWords = "roberta.embeddings.word_embeddings.weight";

std::string roberta_prefix(const EncoderConfig& c) { return c.head == EncoderHead::none ? "" : "roberta."; }

EncoderConfig parse_roberta(const Config& json) {
  EncoderConfig c = parse_bert_settings(json, 1);
  if (!c.padding) json.fail("pad_token_id", "an id, as positions are counted from it");
  if (c.positions <= *c.padding + 1) {
    json.fail("max_position_embeddings",
              std::string("more than pad_token_id + 1 = ") + std::to_string(*c.padding + 1));
  }
  c.max_positions = c.positions - *c.padding - 1;
  ignore_common_keys(json);
  return c;
}

TensorTable roberta_table(const EncoderConfig& c, const HasTensor& has) {
  TensorTable table;
  const bool pooler = has("pooler.dense.weight") || has("roberta.pooler.dense.weight");
  add_bert_body(table, c, roberta_prefix(c), c.head == EncoderHead::none && pooler);
  table.body_rows = table.rows.size();
  table.architecture = c.architecture;
  if (c.head == EncoderHead::masked_lm) {
    add_linear(table, "lm_head.dense", c.d_model, c.d_model);
    add_norm(table, "lm_head.layer_norm", c.d_model);
    add_vocabulary_head(table, c, kRobertaOutput, kRobertaOutputBias, kRobertaWords);
  }
  if (c.head == EncoderHead::sequence) add_linear(table, "classifier.dense", c.d_model, c.d_model);
  add_label_head(table, c, c.head == EncoderHead::sequence ? "classifier.out_proj" : "classifier");
  add_other_names(
      table, "roberta.",
      {"embeddings.position_ids", "embeddings.token_type_ids", "pooler.dense.weight", "pooler.dense.bias",
       "lm_head.dense.weight", "lm_head.dense.bias", "lm_head.layer_norm.weight", "lm_head.layer_norm.bias",
       kRobertaOutput + ".weight", kRobertaOutput + ".bias", kRobertaOutputBias, "classifier.dense.weight",
       "classifier.dense.bias", "classifier.out_proj.weight", "classifier.out_proj.bias", "classifier.weight",
       "classifier.bias", "qa_outputs.weight", "qa_outputs.bias"});
  return table;
}

std::unique_ptr<Model> build_roberta(const EncoderConfig& c, ModelFiles files) {
  const Weights& weights = files.weights;
  EncoderParts parts = bert_body(c, weights, roberta_prefix(c));
  parts.embeddings.unpositioned = c.padding;
  parts.embeddings.positions = AdditivePositions(
      weights[roberta_prefix(c) + "embeddings.position_embeddings.weight"], *c.padding + 1, c.padding);
  if (c.head == EncoderHead::masked_lm) {
    EncoderHeadParts head;
    head.dense = linear_part(weights, "lm_head.dense");
    head.activation = Activation::gelu;  // whatever the layers have
    head.norm = norm_part(weights, "lm_head.layer_norm", NormKind::layer, c.norm_eps);
    head.output = linear_part(weights, kRobertaOutput);
    parts.head = head;
  } else if (c.head == EncoderHead::sequence) {
    parts.head = label_head(c, weights, "classifier.out_proj");
    parts.head->first_dropout = c.head_dropout;
    parts.head->dense = linear_part(weights, "classifier.dense");
    parts.head->activation = Activation::tanh;
  } else if (c.head != EncoderHead::none) {
    parts.head = label_head(c, weights, "classifier");
  }
  return assemble_encoder(c, std::move(files), std::move(parts));
}

}  // namespace

Family roberta_family() {
  return family<parse_roberta, roberta_table, build_roberta>({"roberta", "xlm-roberta", "camembert"});
}

}  // namespace heed
