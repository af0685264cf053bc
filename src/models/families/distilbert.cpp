// DistilBERT: its config, its table of tensors and its heads.
#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/nn/positions.h"
#include "models/config_fields.h"
#include "models/encoder_heads.h"
#include "models/families.h"
#include "models/families/bert_common.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

const std::string kDistilbert = "distilbert.";

std::string distilbert_prefix(const EncoderConfig& c) { return body_prefix(c, kDistilbert); }

EncoderHeads distilbert_heads(const EncoderConfig& c) {
  return {.prefix = kDistilbert,
          .words = kDistilbert + "embeddings.word_embeddings.weight",
          .masked_lm = {.dense = "vocab_transform",
                        .activation = c.activation,
                        .norm = "vocab_layer_norm",
                        .output = "vocab_projector"},
          .sequence = {.dense = "pre_classifier",
                       .activation = Activation::relu,
                       .dropout = c.head_dropout,
                       .output = "classifier"},
          .token = {.dropout = c.head_dropout, .output = "classifier"},
          .span = {.dropout = c.head_dropout, .output = "qa_outputs"}};
}

std::string distilbert_layer(const EncoderConfig& c, std::int64_t layer) {
  return distilbert_prefix(c) + "transformer.layer." + std::to_string(layer) + ".";
}

EncoderConfig parse_distilbert(const Config& json) {
  EncoderConfig c = EncoderConfig::parse_common(json);
  const char* heads = common_or_own(json, "num_attention_heads", "n_heads");
  c.vocab_size = json.required_positive_integer("vocab_size");
  c.d_model = json.positive_integer(common_or_own(json, "hidden_size", "dim"), 768);
  c.d_embedding = c.d_model;
  c.layers = layer_count(json, common_or_own(json, "num_hidden_layers", "n_layers"), 6);
  c.heads = json.positive_integer(heads, 12);
  c.d_ff = json.positive_integer("hidden_dim", 3072);
  c.positions = json.positive_integer("max_position_embeddings", 512);
  c.activation = activation_setting(json, "activation", json.string("activation", "gelu"));
  c.dropout = probability(json, "dropout", 0.1);
  c.attention_dropout = probability(json, "attention_dropout", 0.1);
  const double sequence = probability(json, "seq_classif_dropout", 0.2),
               span = probability(json, "qa_dropout", 0.1);
  c.head_dropout = c.head == EncoderHead::sequence ? sequence
                   : c.head == EncoderHead::span   ? span
                                                   : c.dropout;
  c.sinusoidal = json.boolean("sinusoidal_pos_embds", false);
  c.max_positions = c.positions;
  c.padding = padding_setting(json, 0, c.vocab_size);
  check_heads(json, heads, c.d_model, c.heads);
  ignore_common_keys(json);
  return c;
}

TensorTable distilbert_table(const EncoderConfig& c, const HasTensor&) {
  TensorTable table;
  add_bert_embeddings(table, c, distilbert_prefix(c));
  if (c.sinusoidal) {
    table.rows[1].fill = [](Tensor positions) {
      positions.copy_from(
          sinusoidal_table(positions.size(0), positions.size(1), SinusoidLayout::interleaved));
    };
  }
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = distilbert_layer(c, i);
    for (const char* part : {"q_lin", "k_lin", "v_lin", "out_lin"})
      add_linear(table, layer + "attention." + part, c.d_model, c.d_model);
    add_norm(table, layer + "sa_layer_norm", c.d_model);
    add_linear(table, layer + "ffn.lin1", c.d_ff, c.d_model);
    add_linear(table, layer + "ffn.lin2", c.d_model, c.d_ff);
    add_norm(table, layer + "output_layer_norm", c.d_model);
  }
  add_head(table, c, distilbert_heads(c));
  return table;
}

std::unique_ptr<Model> build_distilbert(const EncoderConfig& c, ModelFiles files) {
  const Weights& weights = files.weights;
  EncoderParts parts{.embeddings = bert_embeddings(c, weights, distilbert_prefix(c))};
  const auto linear = [&](const std::string& name) { return linear_part(weights, name); };
  const auto norm = [&](const std::string& name) {
    return norm_part(weights, name, NormKind::layer, c.norm_eps);
  };
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string file = distilbert_layer(c, i), self = file + "attention.";
    const SelfAttention attention{{.q = linear(self + "q_lin"),
                                   .k = linear(self + "k_lin"),
                                   .v = linear(self + "v_lin"),
                                   .out = linear(self + "out_lin"),
                                   .heads = c.heads,
                                   .kv_heads = c.heads,
                                   .dropout = c.attention_dropout}};
    const FeedForward feed_forward{linear(file + "ffn.lin1"), linear(file + "ffn.lin2"), c.activation};
    parts.stack.layers.push_back(
        {{post_norm("self_attn", norm(file + "sa_layer_norm"), attention),
          post_norm("feed_forward", norm(file + "output_layer_norm"), feed_forward, c.dropout)}});
  }
  parts.head = head_parts(c, weights, distilbert_heads(c));
  return assemble_encoder(c, std::move(files), std::move(parts));
}

}  // namespace

Family distilbert_family() {
  return family<parse_distilbert, distilbert_table, build_distilbert>({"distilbert"}, {"DistilBert"});
}

}  // namespace heed
