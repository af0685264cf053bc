// BERT: its table of tensors and its heads.
#include "models/config_fields.h"
#include "models/encoder_heads.h"
#include "models/families.h"
#include "models/families/bert_common.h"

namespace heed {
namespace {

const std::string kBert = "bert.";

EncoderHeads bert_heads(const EncoderConfig& c) {
  const std::string lm = "cls.predictions.";
  return {.prefix = kBert,
          .words = kBert + "embeddings.word_embeddings.weight",
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

TensorTable bert_table(const EncoderConfig& c, const HasTensor& has) {
  TensorTable table;
  const bool pooler = has("pooler.dense.weight") || has("bert.pooler.dense.weight");
  const bool bare_with_pooler = c.head == EncoderHead::none && pooler;
  add_bert_body(table, c, body_prefix(c, kBert), c.head == EncoderHead::sequence || bare_with_pooler);
  add_head(table, c, bert_heads(c));
  return table;
}

std::unique_ptr<Model> build_bert(const EncoderConfig& c, ModelFiles files) {
  EncoderParts parts = bert_body(c, files.weights, body_prefix(c, kBert));
  parts.head = head_parts(c, files.weights, bert_heads(c));
  return assemble_encoder(c, std::move(files), std::move(parts));
}

}  // namespace

Family bert_family() { return family<parse_bert, bert_table, build_bert>({"bert"}, {"Bert"}); }

}  // namespace heed
