// The BLOOM family: its config, its table of tensors, and the model built from parts.
#include "heed/models/bloom.h"

#include "models/config_fields.h"
#include "models/decoder.h"
#include "models/rows.h"

namespace heed {
namespace {

struct BloomConfig {
  std::int64_t vocab_size, hidden_size, n_layer, n_head;
  double layer_norm_epsilon, hidden_dropout, attention_dropout;
  bool apply_residual_connection_post_layernorm, tie_word_embeddings, biased_sums;

  static BloomConfig parse(const Config& json);
};

BloomConfig BloomConfig::parse(const Config& json) {
  BloomConfig c;
  const char* heads = common_or_own(json, "num_attention_heads", "n_head");
  c.vocab_size = json.positive_integer("vocab_size", 250880);
  c.hidden_size =
      json.positive_integer(common_or_own(json, "n_embed", "hidden_size"), 64);  // n_embed in the first files
  c.n_layer = layer_count(json, common_or_own(json, "num_hidden_layers", "n_layer"), 2);
  c.n_head = json.positive_integer(heads, 8);
  c.layer_norm_epsilon = norm_epsilon(json, "layer_norm_epsilon", 1e-5);
  c.hidden_dropout = probability(json, "hidden_dropout", 0);
  c.attention_dropout = probability(json, "attention_dropout", 0);
  c.apply_residual_connection_post_layernorm =
      json.boolean("apply_residual_connection_post_layernorm", false);
  // transformers adds up the parts of a split product itself when asked to, and then leaves out the bias.
  const bool split = json.positive_integer("pretraining_tp", 1) > 1;
  c.biased_sums = !(json.boolean("slow_but_exact", false) && split);
  c.tie_word_embeddings = json.boolean("tie_word_embeddings", true);
  check_heads(json, heads, c.hidden_size, c.n_head);
  // Settings of training, and of how products are split over machines.
  json.ignore({"attention_softmax_in_fp32", "bias_dropout_fusion", "initializer_range",
               "masked_softmax_fusion", "n_inner", "offset_alibi", "seq_length", "skip_bias_add",
               "skip_bias_add_qkv", "unk_token_id"});
  ignore_common_keys(json);
  return c;
}

std::string bloom_layer(std::int64_t i) { return "transformer.h." + std::to_string(i) + "."; }

TensorTable bloom_table(const Config& json) {
  const BloomConfig c = BloomConfig::parse(json);
  const std::int64_t width = c.hidden_size;
  TensorTable table;
  table.prefix = "transformer.";
  table.rows.push_back({"transformer.word_embeddings.weight", {c.vocab_size, width}, Init::embedding});
  if (c.tie_word_embeddings) table.rows.back().tied.push_back("lm_head.weight");
  add_norm(table, "transformer.word_embeddings_layernorm", width);
  for (std::int64_t i = 0; i < c.n_layer; ++i) {
    const std::string layer = bloom_layer(i);
    add_norm(table, layer + "input_layernorm", width);
    add_linear(table, layer + "self_attention.query_key_value", 3 * width, width);
    add_linear(table, layer + "self_attention.dense", width, width);
    add_norm(table, layer + "post_attention_layernorm", width);
    add_linear(table, layer + "mlp.dense_h_to_4h", 4 * width, width);
    add_linear(table, layer + "mlp.dense_4h_to_h", width, 4 * width);
  }
  add_norm(table, "transformer.ln_f", width);
  if (!c.tie_word_embeddings) add_output(table, json, "lm_head.weight", {c.vocab_size, width});
  return table;
}

class Bloom final : public AssembledDecoder {
 public:
  explicit Bloom(ModelFiles files);
};

Bloom::Bloom(ModelFiles files) : AssembledDecoder(std::move(files)) {
  const BloomConfig c = BloomConfig::parse(config());
  const auto norm = [&](const std::string& name) {
    return norm_part(weights(), name, NormKind::layer, c.layer_norm_epsilon);
  };
  const auto linear = [&](const std::string& name) { return linear_part(weights(), name); };
  const auto summed = [&](const std::string& name) {
    return c.biased_sums ? linear(name) : Linear{weights()[name + ".weight"], {}};
  };
  parts_.embedding.table = weights()["transformer.word_embeddings.weight"];
  parts_.embedding_norm = norm("transformer.word_embeddings_layernorm");
  parts_.positions = std::make_shared<AlibiPositions>(alibi_slopes(c.n_head), true);
  parts_.takes_position_ids = false;
  for (std::int64_t i = 0; i < c.n_layer; ++i) {
    const std::string file = bloom_layer(i), name = parts_.stack.name + ".layers." + std::to_string(i);
    parts_.stack.layers.push_back(
        {.name = name,
         .attn_norm = norm(file + "input_layernorm"),
         .self_attn = {.name = name + ".self_attn",
                       .out = summed(file + "self_attention.dense"),
                       .heads = c.n_head,
                       .kv_heads = c.n_head,
                       .dropout = c.attention_dropout,
                       .positions = parts_.positions.get(),
                       .fused = FusedQkv{linear(file + "self_attention.query_key_value"), QkvOrder::by_head}},
         .feed_forward_norm = norm(file + "post_attention_layernorm"),
         .feed_forward = {linear(file + "mlp.dense_h_to_4h"), summed(file + "mlp.dense_4h_to_h"),
                          Activation::gelu_tanh},
         .order = c.apply_residual_connection_post_layernorm ? ResidualOrder::from_norm
                                                             : ResidualOrder::sequential,
         .dropout = c.hidden_dropout});
  }
  parts_.stack.final_norm = norm("transformer.ln_f");
  parts_.output.weight = weights().find("lm_head.weight");
}

}  // namespace

std::unique_ptr<DecoderModel> load_bloom(const std::filesystem::path& directory, DType dtype) {
  return std::make_unique<Bloom>(ModelFiles::load(directory, dtype, bloom_table));
}

std::unique_ptr<DecoderModel> make_bloom(const Config& config, Generator& generator) {
  return std::make_unique<Bloom>(ModelFiles::make(config, generator, bloom_table));
}

}  // namespace heed
