// RoBERTa: its table of tensors and its heads.
#include "models/config_fields.h"
#include "models/encoder_heads.h"
#include "models/families.h"
#include "models/families/bert_common.h"

namespace heed {
namespace {

const std::string kRoberta = "roberta.";

EncoderConfig parse_roberta(const Config& json) {
  EncoderConfig c = parse_bert_settings(json, {.padding = 1});
  count_positions_from_padding(json, c);
  ignore_common_keys(json);
  return c;
}

TensorTable roberta_table(const EncoderConfig& c, const HasTensor& has) {
  TensorTable table;
  const bool pooler = has("pooler.dense.weight") || has("roberta.pooler.dense.weight");
  add_bert_body(table, c, body_prefix(c, kRoberta), c.head == EncoderHead::none && pooler);
  add_head(table, c, roberta_heads(c, kRoberta));
  return table;
}

std::unique_ptr<Model> build_roberta(const EncoderConfig& c, ModelFiles files) {
  const std::string prefix = body_prefix(c, kRoberta);
  EncoderParts parts = bert_body(c, files.weights, prefix);
  embed_positions_from_padding(c, files.weights, prefix, parts.embeddings);
  parts.head = head_parts(c, files.weights, roberta_heads(c, kRoberta));
  return assemble_encoder(c, std::move(files), std::move(parts));
}

}  // namespace

Family roberta_family() {
  return family<parse_roberta, roberta_table, build_roberta>({"roberta", "xlm-roberta", "camembert"},
                                                             {"Roberta", "XLMRoberta", "Camembert"});
}

}  // namespace heed
