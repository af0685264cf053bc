// MPNet (Song et al. 2020): BERT's layers, RoBERTa's positions and heads, and a table of relative position
// biases that all layers share.
#include "models/config_fields.h"
#include "models/encoder_heads.h"
#include "models/families.h"
#include "models/families/bert_common.h"

namespace heed {
namespace {

const std::string kMpnet = "mpnet.", kMpnetBias = "encoder.relative_attention_bias.weight";
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
  ignore_common_keys(json);
  return c;
}

TensorTable mpnet_table(const MpnetConfig& c, const HasTensor& has) {
  TensorTable table;
  const std::string prefix = body_prefix(c, kMpnet);
  const bool pooler = has("pooler.dense.weight") || has("mpnet.pooler.dense.weight");
  add_bert_body(table, c, prefix, c.head == EncoderHead::none && pooler, kMpnetNames);
  table.rows.push_back({prefix + kMpnetBias, {c.bias_rows, c.heads}, Init::embedding});
  add_head(table, c, roberta_heads(c, kMpnet));
  return table;
}

std::unique_ptr<Model> build_mpnet(const MpnetConfig& c, ModelFiles files) {
  const std::string prefix = body_prefix(c, kMpnet);
  const auto bias = std::make_shared<RelativePositions>(files.weights[prefix + kMpnetBias], kMpnetBuckets);
  EncoderParts parts =
      bert_body(c, files.weights, prefix, kMpnetNames, [&](MultiHeadAttention attention, const std::string&) {
        attention.bias = bias;
        return Part(SelfAttention{std::move(attention)});
      });
  embed_positions_from_padding(c, files.weights, prefix, parts.embeddings);
  parts.head = head_parts(c, files.weights, roberta_heads(c, kMpnet));
  return assemble_encoder(c, std::move(files), std::move(parts));
}

}  // namespace

Family mpnet_family() { return family<parse_mpnet, mpnet_table, build_mpnet>({"mpnet"}, {"MPNet"}); }

}  // namespace heed
