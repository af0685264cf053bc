// The SmolLM3 family (Bakouch et al. 2025): LLaMA whose every fourth layer has no positions (Yang et al.
// 2025, "RoPE to NoPE and back again"). Its parts are those of llama_common.h.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"

namespace heed {
namespace {

// In `no_rope_layers`, 1 is a layer with rotary positions.
std::vector<bool> unrotated_layers(const Config& json, std::int64_t layers) {
  const auto interval = static_cast<std::size_t>(json.positive_integer("no_rope_layer_interval", 4));
  const std::vector<std::int64_t> rotated = json.integers("no_rope_layers");
  std::vector<bool> unrotated(static_cast<std::size_t>(layers));
  if (json.has("no_rope_layers") && rotated.size() < unrotated.size())
    json.fail("no_rope_layers", "0 or 1 for each of " + std::to_string(layers) + " layers");
  for (std::size_t i = 0; i < unrotated.size(); ++i)
    unrotated[i] = rotated.empty() ? (i + 1) % interval == 0 : rotated[i] == 0;
  return unrotated;
}

LlamaConfig parse_smollm3(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, {.kv_heads = 4,
                                            .positions = 32768,
                                            .tied = true,
                                            .padding = 128004,
                                            .rope = {.theta_default = 2000000}});
  c.read_biases(json);
  c.unrotated = unrotated_layers(json, c.layers);
  const std::int64_t window = integer_or_null(json, "sliding_window", 0, 0);
  const bool slides = json.boolean("use_sliding_window", false) && window > 0;
  c.set_windows(json, window, slides ? c.unrotated : std::vector<bool>(c.unrotated.size()));
  json.ignore({"max_window_layers"});
  return c;
}

}  // namespace

Family smollm3_family() { return family<parse_smollm3, build_llama>({"smollm3"}); }

}  // namespace heed
