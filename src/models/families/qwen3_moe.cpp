// Qwen3 with mixtures of experts (Yang et al. 2025, "Qwen3 technical report") in the layers that the config
// names, and a dense feed-forward in the others. Its parts are those of llama_common.h.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"

namespace heed {
namespace {

// Every decoder_sparse_step-th layer has experts, except those in mlp_only_layers.
void choose_layers(const Config& json, std::vector<bool>& layers) {
  const auto step = static_cast<std::size_t>(json.positive_integer("decoder_sparse_step", 1));
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i] = (i + 1) % step == 0;
  for (const std::int64_t dense : json.integers("mlp_only_layers")) {
    if (dense < 0 || dense >= static_cast<std::int64_t>(layers.size()))
      json.fail("mlp_only_layers", "layers from 0 to " + std::to_string(layers.size() - 1));
    layers[static_cast<std::size_t>(dense)] = false;
  }
}

LlamaConfig parse_qwen3_moe(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, {.kv_heads = 4, .positions = 32768});
  c.qk_norm = true;
  c.qkv_bias = c.out_bias = json.boolean("attention_bias", false);
  const std::int64_t window = integer_or_null(json, "sliding_window", 0, 4096);
  c.windows.assign(c.windows.size(), json.boolean("use_sliding_window", false) ? window : 0);
  c.experts = ExpertsConfig::parse(json, c.layers, 128, 8);
  c.experts.d_ff = json.positive_integer("moe_intermediate_size", 768);
  c.experts.normalize = json.boolean("norm_topk_prob", false);
  choose_layers(json, c.experts.layers);
  json.ignore({"layer_types", "max_window_layers"});  // which Qwen3MoeForCausalLM does not read
  return c;
}

}  // namespace

Family qwen3_moe_family() { return family<parse_qwen3_moe, build_llama>({"qwen3_moe"}); }

}  // namespace heed
