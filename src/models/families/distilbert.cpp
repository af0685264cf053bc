// DistilBERT: its config, its heads, and the model built from parts.
#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/bert_common.h"

namespace heed {
namespace {

EncoderHeads distilbert_heads(const EncoderConfig& c) {
  return {.prefix = "distilbert.",
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
  return c;
}

std::unique_ptr<Model> build_distilbert(const EncoderConfig& c, WeightBuilder& w) {
  const EncoderHeads heads = distilbert_heads(c);
  const std::string prefix = begin_body(c, heads, w);
  EncoderParts parts{.embeddings = take_bert_embeddings(c, heads, w, prefix)};
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string file = prefix + "transformer.layer." + std::to_string(i) + ".";
    const auto linear = [&](const char* name) {
      return w.linear(file + "attention." + name, c.d_model, c.d_model);
    };
    const SelfAttention attention{{.q = linear("q_lin"),
                                   .k = linear("k_lin"),
                                   .v = linear("v_lin"),
                                   .out = linear("out_lin"),
                                   .heads = c.heads,
                                   .kv_heads = c.heads,
                                   .dropout = c.attention_dropout}};
    const Norm attention_norm = w.layer_norm(file + "sa_layer_norm", c.d_model, c.norm_eps);
    const FeedForward feed_forward{w.linear(file + "ffn.lin1", c.d_ff, c.d_model),
                                   w.linear(file + "ffn.lin2", c.d_model, c.d_ff), c.activation};
    const Norm output_norm = w.layer_norm(file + "output_layer_norm", c.d_model, c.norm_eps);
    parts.stack.layers.push_back({{post_norm("self_attn", attention_norm, attention),
                                   post_norm("feed_forward", output_norm, feed_forward, c.dropout)}});
  }
  parts.head = take_head(c, heads, w);
  return assemble_encoder(c, w.finish(), std::move(parts));
}

}  // namespace

Family distilbert_family() {
  return family<parse_distilbert, build_distilbert>({"distilbert"}, {"DistilBert"});
}

}  // namespace heed
