// RoBERTa: its table of tensors and its heads.
#include "heed/models/roberta.h"

#include "models/bert_layout.h"
#include "models/config_fields.h"
#include "models/rows.h"

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
  ignore_common_keys(json);
  return c;
}

EncoderTable roberta_table(const EncoderConfig& c, const HasTensor& has) {
  EncoderTable encoder;
  TensorTable& table = encoder.table;
  const bool pooler = has("pooler.dense.weight") || has("roberta.pooler.dense.weight");
  add_bert_body(table, c, roberta_prefix(c), c.head == EncoderHead::none && pooler);
  encoder.body_rows = table.rows.size();
  if (c.head == EncoderHead::masked_lm) {
    add_linear(table, "lm_head.dense", c.width, c.width);
    add_norm(table, "lm_head.layer_norm", c.width);
    add_vocabulary_head(table, c, kRobertaOutput, kRobertaOutputBias, kRobertaWords);
  }
  if (c.head == EncoderHead::sequence) add_linear(table, "classifier.dense", c.width, c.width);
  add_label_head(table, c, c.head == EncoderHead::sequence ? "classifier.out_proj" : "classifier");
  add_other_names(
      encoder, "roberta.",
      {"embeddings.position_ids", "embeddings.token_type_ids", "pooler.dense.weight", "pooler.dense.bias",
       "lm_head.dense.weight", "lm_head.dense.bias", "lm_head.layer_norm.weight", "lm_head.layer_norm.bias",
       kRobertaOutput + ".weight", kRobertaOutput + ".bias", kRobertaOutputBias, "classifier.dense.weight",
       "classifier.dense.bias", "classifier.out_proj.weight", "classifier.out_proj.bias", "classifier.weight",
       "classifier.bias", "qa_outputs.weight", "qa_outputs.bias"});
  return encoder;
}

EncoderParts build_roberta(const EncoderConfig& c, const Weights& weights) {
  EncoderParts parts = build_bert_body(c, weights, roberta_prefix(c));
  parts.counted = c.padding;
  parts.positions.padding_id = c.padding;
  if (c.head == EncoderHead::masked_lm) {
    EncoderHeadParts head;
    head.dense = linear_part(weights, "lm_head.dense");
    head.activation = Activation::gelu;  // whatever the layers have
    head.norm = norm_part(weights, "lm_head.layer_norm", NormKind::layer, c.norm_eps);
    head.output = linear_part(weights, kRobertaOutput);
    parts.head = head;
  } else if (c.head == EncoderHead::sequence) {
    parts.head = build_label_head(c, weights, "classifier.out_proj");
    parts.head->first_dropout = c.head_dropout;
    parts.head->dense = linear_part(weights, "classifier.dense");
    parts.head->activation = Activation::tanh;
  } else if (c.head != EncoderHead::none) {
    parts.head = build_label_head(c, weights, "classifier");
  }
  return parts;
}

constexpr EncoderFamily kRoberta{parse_roberta, roberta_table, build_roberta};

}  // namespace

std::unique_ptr<EncoderModel> make_roberta(const Config& config, Generator& generator) {
  return make_encoder(kRoberta, config, generator);
}

std::unique_ptr<EncoderModel> load_roberta(const std::filesystem::path& directory, DType dtype) {
  return load_encoder(kRoberta, directory, dtype);
}

}  // namespace heed
