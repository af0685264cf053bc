// What the configs of Gemma 2 and 3 share.
#include "models/families/gemma_common.h"

#include <algorithm>
#include <cmath>

#include "models/config_fields.h"

namespace heed {

double gemma_cap(const Config& json, const char* key, double default_value) {
  if (json.has(key)) return positive_number(json, key, default_value);
  json.ignore({key});
  const std::vector<std::string> names = json.names();
  return std::find(names.begin(), names.end(), key) != names.end() ? 0 : default_value;
}

LlamaConfig parse_gemma(const Config& json, std::int64_t positions, const RopeKeys& rope) {
  LlamaConfig c = LlamaConfig::parse(
      json,
      {.kv_heads = 4, .head_dim = 256, .positions = positions, .tied = true, .padding = 0, .rope = rope});
  c.activation = json.string("hidden_activation", "gelu_pytorch_tanh");
  activation_setting(json, "hidden_activation", c.activation);
  c.qkv_bias = c.out_bias = json.boolean("attention_bias", false);
  c.norm_after = true;
  c.norm_offset = 1;
  // transformers multiplies by a number in the type that it computes in, which here is f32.
  c.embedding_scale = std::sqrt(static_cast<float>(c.d_model));
  c.attention_scale = 1 / std::sqrt(positive_number(json, "query_pre_attn_scalar", 256));
  if (json.boolean("use_bidirectional_attention", false))
    json.fail("use_bidirectional_attention", "false, as tokens attend to earlier ones alone here");
  json.ignore({"cache_implementation"});
  return c;
}

void read_gemma_windows(const Config& json, std::vector<bool> slides, LlamaConfig& c) {
  const std::int64_t window = integer_or_null(json, "sliding_window", 0, 4096);
  if (window == 0) json.fail("sliding_window", "a number of tokens");
  c.set_windows(json, window, std::move(slides));
}

}  // namespace heed
