// BERT: its heads.
#include "models/families.h"
#include "models/families/bert_common.h"

namespace heed {
namespace {

EncoderHeads bert_heads(const EncoderConfig& c) {
  const std::string lm = "cls.predictions.";
  return {.prefix = "bert.",
          .masked_lm = {.dense = lm + "transform.dense",
                        .activation = c.activation,
                        .norm = lm + "transform.LayerNorm",
                        .output = lm + "decoder"},
          .output_bias = lm + "bias",
          .sequence = {.dense = "bert.pooler.dense",
                       .activation = Activation::tanh,
                       .dropout = c.head_dropout,
                       .output = "classifier"},
          .token = {.dropout = c.head_dropout, .output = "classifier"},
          .unused = {"cls.seq_relationship"}};
}

EncoderConfig parse_bert(const Config& json) {
  EncoderConfig c = parse_bert_settings(json, {});
  json.ignore({"pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
               "pooler_type"});
  return c;
}

std::unique_ptr<Model> build_bert(const EncoderConfig& c, WeightBuilder& w) {
  return build_bert_model(c, bert_heads(c), w);
}

}  // namespace

Family bert_family() { return family<parse_bert, build_bert>({"bert"}, {"Bert"}); }

}  // namespace heed
