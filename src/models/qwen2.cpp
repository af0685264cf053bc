// The Qwen2 family: its config; table and parts are those of llama_layout.h.
#include "heed/models/qwen2.h"

#include "models/config_fields.h"
#include "models/llama_layout.h"
#include "models/rope_config.h"

namespace heed {
namespace {

// Which layers see a window of keys only: named one by one, or all from max_window_layers on.
void read_windows(const Config& json, LlamaShape& s) {
  const std::int64_t first = json.integer("max_window_layers", 28);
  std::int64_t window = integer_or_null(json, "sliding_window", 0, 4096);
  if (!json.boolean("use_sliding_window", false)) window = 0;
  const std::vector<std::string> types = json.strings("layer_types");
  if (!types.empty() && types.size() != s.windows.size())
    json.fail("layer_types", "one for each of " + std::to_string(s.layers) + " layers");
  for (std::size_t i = 0; i < s.windows.size(); ++i) {
    bool slides = static_cast<std::int64_t>(i) >= first;
    if (!types.empty()) {
      slides = types[i] == "sliding_attention";
      if (!slides && types[i] != "full_attention")
        json.fail("layer_types", "full_attention and sliding_attention only");
    }
    if (slides) s.windows[i] = window;
  }
}

LlamaShape qwen2_shape(const Config& json) {
  LlamaShape s = LlamaShape::parse(json, 32);
  s.qkv_bias = true;
  s.positions = json.positive_integer("max_position_embeddings", 32768);
  s.rotary = rotary_options(json, s.head_dim, s.positions);
  read_windows(json, s);
  ignore_common_keys(json);
  return s;
}

}  // namespace

std::unique_ptr<DecoderModel> load_qwen2(const std::filesystem::path& directory, DType dtype) {
  return load_llama_like(directory, dtype, qwen2_shape);
}

std::unique_ptr<DecoderModel> make_qwen2(const Config& config, Generator& generator) {
  return make_llama_like(config, generator, qwen2_shape);
}

}  // namespace heed
