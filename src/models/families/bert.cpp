// BERT: its heads.
#include "models/families.h"
#include "models/families/bert_common.h"

namespace heed {
namespace {

EncoderHeads bert_heads(const EncoderConfig& c, const std::string& prefix) {
  const std::string lm = prefix + "cls.predictions.";
  return {.prefix = prefix + "bert.",
          .masked_lm = {.dense = lm + "transform.dense",
                        .activation = c.activation,
                        .norm = lm + "transform.LayerNorm",
                        .output = lm + "decoder"},
          .output_bias = lm + "bias",
          .sequence = {.dense = prefix + "bert.pooler.dense",
                       .activation = Activation::tanh,
                       .dropout = c.head_dropout,
                       .output = "classifier"},
          .token = {.dropout = c.head_dropout, .output = "classifier"},
          .unused = {prefix + "cls.seq_relationship"}};
}

EncoderConfig read_bert(const Config& json, bool decodes) {
  EncoderConfig c = parse_bert_settings(json, {.decodes = decodes});
  json.ignore({"pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
               "pooler_type"});
  return c;
}

EncoderConfig parse_bert(const Config& json) { return read_bert(json, false); }

std::unique_ptr<Model> build_bert(const EncoderConfig& c, WeightBuilder& w) {
  return build_bert_model(c, bert_heads(c, ""), w);
}

}  // namespace

TextTower bert_tower(const Config& json) {
  return bert_text_tower(read_bert(json, true), "BertLMHeadModel", bert_heads);
}

Family bert_family() { return family<parse_bert, build_bert>({"bert"}, {"Bert"}); }

}  // namespace heed
