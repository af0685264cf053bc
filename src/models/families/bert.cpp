// BERT: its heads.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/bert_common.h"

namespace heed {
namespace {

const std::string kBert = "bert.";

EncoderHeads bert_heads(const EncoderConfig& c) {
  const std::string lm = "cls.predictions.";
  return {.prefix = kBert,
          .masked_lm = {.dense = lm + "transform.dense",
                        .activation = c.activation,
                        .norm = lm + "transform.LayerNorm",
                        .output = lm + "decoder"},
          .output_bias = lm + "bias",
          .sequence = {.dense = kBert + "pooler.dense",
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
  ignore_common_keys(json);
  return c;
}

std::unique_ptr<Model> build_bert(const EncoderConfig& c, WeightBuilder& w) {
  const EncoderHeads heads = bert_heads(c);
  EncoderParts parts = bert_parts(c, take_bert_body(c, heads, w));
  parts.pooler = take_pooler(c, w, "pooler.dense");
  parts.head = take_head(c, heads, w);
  return assemble_encoder(c, w.finish(), std::move(parts));
}

}  // namespace

Family bert_family() { return family<parse_bert, build_bert>({"bert"}, {"Bert"}); }

}  // namespace heed
