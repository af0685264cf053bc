// The Qwen2 family: its config; table and parts are those of llama_common.h.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/llama_common.h"
#include "models/rope_config.h"

namespace heed {
namespace {

// Which layers see a window of keys only: named one by one, or all from max_window_layers on.
void read_windows(const Config& json, LlamaConfig& c) {
  const std::int64_t first = json.integer("max_window_layers", 28);
  std::int64_t window = integer_or_null(json, "sliding_window", 0, 4096);
  if (!json.boolean("use_sliding_window", false)) window = 0;
  const std::vector<std::string> types = json.strings("layer_types");
  if (!types.empty() && types.size() != c.windows.size())
    json.fail("layer_types", "one for each of " + std::to_string(c.layers) + " layers");
  for (std::size_t i = 0; i < c.windows.size(); ++i) {
    bool slides = static_cast<std::int64_t>(i) >= first;
    if (!types.empty()) {
      slides = types[i] == "sliding_attention";
      if (!slides && types[i] != "full_attention")
        json.fail("layer_types", "full_attention and sliding_attention only");
    }
    if (slides) c.windows[i] = window;
  }
}

LlamaConfig parse_qwen2(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, 32);
  c.qkv_bias = true;
  c.positions = json.positive_integer("max_position_embeddings", 32768);
  c.rotary = rotary_options(json, c.head_dim, c.positions);
  read_windows(json, c);
  ignore_common_keys(json);
  return c;
}

}  // namespace

Family qwen2_family() { return family<parse_qwen2, llama_table, build_llama>({"qwen2"}); }

}  // namespace heed
