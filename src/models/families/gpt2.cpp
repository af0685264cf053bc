// The GPT-2 family: its config, its table of tensors, and the model built from parts.
#include <cmath>

#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/ops/activation.h"
#include "models/config_fields.h"
#include "models/decoder.h"
#include "models/families.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

struct Gpt2Config {
  std::int64_t vocab_size, n_positions, n_embd, n_layer, n_head, n_inner;
  std::string activation_function;
  double resid_pdrop, embd_pdrop, attn_pdrop, layer_norm_epsilon, initializer_range;
  bool scale_attn_weights, scale_attn_by_inverse_layer_idx, tie_word_embeddings, headless;

  static Gpt2Config parse(const Config& json);
};

Gpt2Config Gpt2Config::parse(const Config& json) {
  Gpt2Config c;
  const char* heads = common_or_own(json, "num_attention_heads", "n_head");
  c.vocab_size = json.positive_integer("vocab_size", 50257);
  c.n_positions = json.positive_integer(common_or_own(json, "max_position_embeddings", "n_positions"), 1024);
  c.n_embd = json.positive_integer(common_or_own(json, "hidden_size", "n_embd"), 768);
  c.n_layer = layer_count(json, common_or_own(json, "num_hidden_layers", "n_layer"), 12);
  c.n_head = json.positive_integer(heads, 12);
  c.n_inner = json.positive_integer("n_inner", 4 * c.n_embd);
  c.activation_function = json.string("activation_function", "gelu_new");
  c.resid_pdrop = probability(json, "resid_pdrop", 0.1);
  c.embd_pdrop = probability(json, "embd_pdrop", 0.1);
  c.attn_pdrop = probability(json, "attn_pdrop", 0.1);
  c.layer_norm_epsilon = norm_epsilon(json, "layer_norm_epsilon", 1e-5);
  c.initializer_range = positive_number(json, "initializer_range", 0.02);
  c.scale_attn_weights = json.boolean("scale_attn_weights", true);
  c.scale_attn_by_inverse_layer_idx = json.boolean("scale_attn_by_inverse_layer_idx", false);
  c.tie_word_embeddings = json.boolean("tie_word_embeddings", true);
  check_heads(json, heads, c.n_embd, c.n_head);
  activation_setting(json, "activation_function", c.activation_function);
  if (json.boolean("add_cross_attention", false)) json.fail("add_cross_attention", "false");
  // The order of rounding in half precision, and what only other heads than the language model's read.
  json.ignore({"reorder_and_upcast_attn", "n_ctx", "n_special", "predict_special_tokens",
               "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
               "summary_use_proj", "is_decoder", "is_encoder_decoder"});
  c.headless = is_headless(json);
  ignore_common_keys(json);
  return c;
}

std::string gpt2_layer(std::int64_t i) { return "transformer.h." + std::to_string(i) + "."; }

// Conv1D keeps its matrix as [in, out].
void add_conv1d(TensorTable& table, const std::string& name, std::int64_t in, std::int64_t out,
                double deviation = 0) {
  table.rows.push_back({name + ".weight", {in, out}, Init::xavier});
  table.rows.back().deviation = deviation;
  table.rows.back().map = MapKind::transposed;
  table.rows.push_back({name + ".bias", {out}, Init::zeros});
}

TensorTable gpt2_table(const Gpt2Config& c, const HasTensor&) {
  TensorTable table;
  // Radford et al. 2019: what adds to the residual stream is scaled by the number of its additions.
  const double residual = c.initializer_range / std::sqrt(2.0 * static_cast<double>(c.n_layer));
  add_embedding(table, "transformer.wte.weight", c.vocab_size, c.n_embd);
  if (c.tie_word_embeddings) table.rows.back().tied.push_back("lm_head.weight");
  table.rows.push_back({"transformer.wpe.weight", {c.n_positions, c.n_embd}, Init::embedding});
  for (std::int64_t i = 0; i < c.n_layer; ++i) {
    const std::string layer = gpt2_layer(i);
    add_norm(table, layer + "ln_1", c.n_embd);
    add_conv1d(table, layer + "attn.c_attn", c.n_embd, 3 * c.n_embd);
    add_conv1d(table, layer + "attn.c_proj", c.n_embd, c.n_embd, residual);
    add_norm(table, layer + "ln_2", c.n_embd);
    add_conv1d(table, layer + "mlp.c_fc", c.n_embd, c.n_inner);
    add_conv1d(table, layer + "mlp.c_proj", c.n_inner, c.n_embd, residual);
    table.ignored_names.push_back(layer + "attn.bias");  // the causal mask, in early files
    table.ignored_names.push_back(layer + "attn.masked_bias");
  }
  add_norm(table, "transformer.ln_f", c.n_embd);
  if (!c.tie_word_embeddings) add_output(table, c.headless, "lm_head.weight", {c.vocab_size, c.n_embd});
  table.prefix = "transformer.";
  return table;
}

std::unique_ptr<Model> build_gpt2(const Gpt2Config& c, ModelFiles files) {
  const Weights& weights = files.weights;
  const auto norm = [&](const std::string& name) {
    return norm_part(weights, name, NormKind::layer, c.layer_norm_epsilon);
  };
  const auto conv1d = [&](const std::string& name) {
    Linear part = linear_part(weights, name);
    part.layout = WeightLayout::in_out;
    return part;
  };
  const std::int64_t head_dim = c.n_embd / c.n_head;
  DecoderParts parts;
  parts.embeddings.tokens.table = weights["transformer.wte.weight"];
  parts.embeddings.positions = AdditivePositions(weights["transformer.wpe.weight"]);
  parts.embeddings.dropout = c.embd_pdrop;
  for (std::int64_t i = 0; i < c.n_layer; ++i) {
    const std::string file = gpt2_layer(i);
    double scale = c.scale_attn_weights ? 1.0 / std::sqrt(static_cast<double>(head_dim)) : 1.0;
    if (c.scale_attn_by_inverse_layer_idx) scale /= static_cast<double>(i + 1);
    const SelfAttention attention{
        {.out = conv1d(file + "attn.c_proj"),
         .heads = c.n_head,
         .kv_heads = c.n_head,
         .dropout = c.attn_pdrop,
         .scale = scale,
         .fused = qkv_by_kind(conv1d(file + "attn.c_attn"), c.n_head, c.n_head, head_dim)}};
    const FeedForward feed_forward{conv1d(file + "mlp.c_fc"), conv1d(file + "mlp.c_proj"),
                                   activation_named(c.activation_function)};
    parts.stack.layers.push_back(
        {{pre_norm("self_attn", norm(file + "ln_1"), attention, c.resid_pdrop),
          pre_norm("feed_forward", norm(file + "ln_2"), feed_forward, c.resid_pdrop)}});
  }
  parts.stack.final_norm = norm("transformer.ln_f");
  parts.output.weight = weights.find("lm_head.weight");
  return assemble_decoder(std::move(files), std::move(parts),
                          {.max_positions = c.n_positions, .trained_positions = c.n_positions});
}

}  // namespace

Family gpt2_family() { return family<&Gpt2Config::parse, gpt2_table, build_gpt2>({"gpt2"}); }

}  // namespace heed
