// RoBERTa: BERT with positions that are counted from the padding id, and other heads.
#include "models/families.h"
#include "models/families/bert_common.h"

namespace heed {
namespace {

EncoderConfig read_roberta(const Config& json, bool decodes) {
  EncoderConfig c = parse_bert_settings(json, {.padding = 1, .decodes = decodes});
  count_positions_from_padding(json, c);
  return c;
}

EncoderConfig parse_roberta(const Config& json) { return read_roberta(json, false); }

std::unique_ptr<Model> build_roberta(const EncoderConfig& c, WeightBuilder& w) {
  return build_bert_model(c, roberta_heads(c, "roberta."), w);
}

}  // namespace

TextTower roberta_tower(const Config& json) {
  TextTower tower = bert_text_tower(
      read_roberta(json, true), "RobertaForCausalLM",
      [](const EncoderConfig& c, const std::string& prefix) { return roberta_heads(c, "roberta.", prefix); });
  tower.eos = 2;
  tower.start = 0;
  return tower;
}

Family roberta_family() {
  return family<parse_roberta, build_roberta>({"roberta", "xlm-roberta", "camembert"},
                                              {"Roberta", "XLMRoberta", "Camembert"});
}

}  // namespace heed
