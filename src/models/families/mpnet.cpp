// MPNet (Song et al. 2020): BERT's layers, RoBERTa's positions and heads, and a table of relative position
// biases that all layers share.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/bert_common.h"

namespace heed {
namespace {

const BertLayerNames kMpnetNames{.query = "attention.attn.q",
                                 .key = "attention.attn.k",
                                 .value = "attention.attn.v",
                                 .out = "attention.attn.o",
                                 .norm = "attention.LayerNorm"};
// transformers uses these whatever the config says, which sets no more than the rows of the table.
constexpr RelativeBuckets kMpnetBuckets{.count = 32, .max_distance = 128, .bidirectional = true};

struct MpnetConfig : EncoderConfig {
  std::int64_t bias_rows = 0;
};

MpnetConfig parse_mpnet(const Config& json) {
  MpnetConfig c{parse_bert_settings(json, {.padding = 1, .token_types = 0})};
  c.head_dropout = c.dropout;
  if (c.padding != 1) json.fail("pad_token_id", "1, from which positions are counted");
  count_positions_from_padding(json, c);
  c.bias_rows = json.positive_integer("relative_attention_num_buckets", kMpnetBuckets.count);
  if (c.bias_rows < kMpnetBuckets.count) json.fail("relative_attention_num_buckets", "at least 32");
  return c;
}

std::unique_ptr<Model> build_mpnet(const MpnetConfig& c, WeightBuilder& w) {
  const EncoderHeads heads = roberta_heads(c, "mpnet.");
  BertBody body = take_bert_body(c, heads, w, kMpnetNames);
  Pool pool = take_pooler(c, w, "pooler.dense");
  const auto bias = std::make_shared<RelativePositions>(
      w.tensor({.name = body.prefix + "encoder.relative_attention_bias.weight",
                .shape = {c.bias_rows, c.heads},
                .init = Init::embedding}),
      kMpnetBuckets);
  for (BertLayer& layer : body.layers) layer.attention.bias = bias;
  EncoderParts parts = bert_parts(c, body);
  parts.pool = std::move(pool);
  parts.head = take_head(c, heads, w);
  return assemble_encoder(c, w.finish(), std::move(parts));
}

}  // namespace

Family mpnet_family() { return family<parse_mpnet, build_mpnet>({"mpnet"}, {"MPNet"}); }

}  // namespace heed
