// RoBERTa: BERT with positions that are counted from the padding id, and other heads.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/bert_common.h"

namespace heed {
namespace {

EncoderConfig parse_roberta(const Config& json) {
  EncoderConfig c = parse_bert_settings(json, {.padding = 1});
  count_positions_from_padding(json, c);
  ignore_common_keys(json);
  return c;
}

std::unique_ptr<Model> build_roberta(const EncoderConfig& c, WeightBuilder& w) {
  const EncoderHeads heads = roberta_heads(c, "roberta.");
  EncoderParts parts = bert_parts(c, take_bert_body(c, heads, w));
  parts.pooler = take_pooler(c, w, "pooler.dense");
  parts.head = take_head(c, heads, w);
  return assemble_encoder(c, w.finish(), std::move(parts));
}

}  // namespace

Family roberta_family() {
  return family<parse_roberta, build_roberta>({"roberta", "xlm-roberta", "camembert"},
                                              {"Roberta", "XLMRoberta", "Camembert"});
}

}  // namespace heed
