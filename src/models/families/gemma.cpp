// The Gemma family. What both have on top of LLaMA (llama_common.h): norms before and after each sublayer,
// whose weights are stored less 1; scaled embeddings; a scale of scores from a number of its own; layers with
// a window among others.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"

namespace heed {
namespace {

// The cap under `key`; 0 where the config says null.
double gemma_cap(const Config& json, const char* key, double default_value) {
  if (json.has(key)) return positive_number(json, key, default_value);
  json.ignore({key});
  const std::vector<std::string> names = json.names();
  return std::find(names.begin(), names.end(), key) != names.end() ? 0 : default_value;
}

// The keys that both have, but for windows; `positions` where the config has none.
LlamaConfig parse_gemma(const Config& json, std::int64_t positions, const RopeKeys& rope = {}) {
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

// Gives the window of the config to the layers that `layer_types` names, or else to those of `slides`.
void read_gemma_windows(const Config& json, std::vector<bool> slides, LlamaConfig& c) {
  const std::int64_t window = integer_or_null(json, "sliding_window", 0, 4096);
  if (window == 0) json.fail("sliding_window", "a number of tokens");
  c.set_windows(json, window, std::move(slides));
}

// Gemma 2 (Gemma Team 2024, "Gemma 2: improving open language models at a practical size"): capped scores and
// logits, and a window in every other layer.
LlamaConfig parse_gemma2(const Config& json) {
  LlamaConfig c = parse_gemma(json, 8192);
  c.score_cap = gemma_cap(json, "attn_logit_softcapping", 50);
  c.logit_cap = gemma_cap(json, "final_logit_softcapping", 30);
  std::vector<bool> slides;
  for (std::int64_t i = 0; i < c.layers; ++i) slides.push_back(i % 2 == 0);
  read_gemma_windows(json, std::move(slides), c);
  return c;
}

// The text models of Gemma 3 (Gemma Team 2025, "Gemma 3 technical report"): several layers with a window to
// one without, each kind with its own rotary positions, and norms of queries and keys.
LlamaConfig parse_gemma3(const Config& json) {
  if (json.string("model_type", "") != "gemma3_text")
    json.fail("model_type", "gemma3_text (models with images are not supported; take one of text alone)");
  LlamaConfig c = parse_gemma(json, 131072, {.layer_type = "full_attention", .theta_default = 1000000});
  c.qk_norm = true;
  c.logit_cap = gemma_cap(json, "final_logit_softcapping", 0);
  c.window_rotary =
      rotary_options(json, c.head_dim, c.positions,
                     {.theta = "rope_local_base_freq", .layer_type = "sliding_attention", .scaled = false});
  const std::int64_t pattern = json.positive_integer("sliding_window_pattern", 6);
  std::vector<bool> slides;
  for (std::int64_t i = 1; i <= c.layers; ++i) slides.push_back(i % pattern != 0);
  read_gemma_windows(json, std::move(slides), c);
  json.ignore({"attn_logit_softcapping", "_sliding_window_pattern"});  // transformers reads neither
  return c;
}

}  // namespace

Family gemma2_family() { return family<parse_gemma2, build_llama>({"gemma2"}); }

Family gemma3_family() { return family<parse_gemma3, build_llama>({"gemma3_text", "gemma3"}); }

}  // namespace heed
