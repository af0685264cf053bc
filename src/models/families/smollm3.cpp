// The SmolLM3 family (Bakouch et al. 2025): LLaMA whose every fourth layer has no positions (Yang et al.
// 2025, "RoPE to NoPE and back again"). Its parts are those of llama_common.h.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"
#include "models/families/rope_config.h"

namespace heed {
namespace {

// In `no_rope_layers`, 1 is a layer with rotary positions.
std::vector<bool> unrotated_layers(const Config& json, std::int64_t layers) {
  const std::int64_t interval = json.positive_integer("no_rope_layer_interval", 4);
  const std::vector<std::int64_t> rotated = json.integers("no_rope_layers");
  const auto count = static_cast<std::size_t>(layers);
  std::vector<bool> unrotated(count);
  if (json.has("no_rope_layers") && rotated.size() < count)
    json.fail("no_rope_layers", "0 or 1 for each of " + std::to_string(layers) + " layers");
  for (std::size_t i = 0; i < count; ++i) {
    const auto next = static_cast<std::int64_t>(i) + 1;
    unrotated[i] = rotated.empty() ? next % interval == 0 : rotated[i] == 0;
  }
  return unrotated;
}

LlamaConfig parse_smollm3(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, 4);
  c.tied = json.boolean("tie_word_embeddings", true);
  c.padding = padding_setting(json, 128004, c.vocab_size);
  c.qkv_bias = c.out_bias = json.boolean("attention_bias", false);
  c.mlp_bias = json.boolean("mlp_bias", false);
  c.positions = json.positive_integer("max_position_embeddings", 32768);
  c.rotary = rotary_options(json, c.head_dim, c.positions, {.theta_default = 2000000});
  c.unrotated = unrotated_layers(json, c.layers);
  const std::int64_t window = integer_or_null(json, "sliding_window", 0, 0);
  const bool slides = json.boolean("use_sliding_window", false) && window > 0;
  c.set_windows(json, window, slides ? c.unrotated : std::vector<bool>(c.unrotated.size()));
  json.ignore({"max_window_layers"});
  ignore_common_keys(json);
  return c;
}

}  // namespace

Family smollm3_family() { return family<parse_smollm3, build_llama>({"smollm3"}); }

}  // namespace heed
