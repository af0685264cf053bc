// RoBERTa: BERT with positions that are counted from the padding id, and other heads.
#include "models/families.h"
#include "models/families/bert_common.h"

namespace heed {
namespace {

EncoderConfig parse_roberta(const Config& json) {
  EncoderConfig c = parse_bert_settings(json, {.padding = 1});
  count_positions_from_padding(json, c);
  return c;
}

std::unique_ptr<Model> build_roberta(const EncoderConfig& c, WeightBuilder& w) {
  return build_bert_model(c, roberta_heads(c, "roberta."), w);
}

}  // namespace

Family roberta_family() {
  return family<parse_roberta, build_roberta>({"roberta", "xlm-roberta", "camembert"},
                                              {"Roberta", "XLMRoberta", "Camembert"});
}

}  // namespace heed
