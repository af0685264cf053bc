// The text models of the Gemma 3 family (Gemma Team 2025, "Gemma 3 technical report"): several layers with a
// window to one without, each kind with its own rotary positions, and norms of queries and keys. Its
// parts are those of llama_common.h.
#include "models/families.h"
#include "models/families/gemma_common.h"

namespace heed {
namespace {

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

Family gemma3_family() { return family<parse_gemma3, build_llama>({"gemma3_text", "gemma3"}); }

}  // namespace heed
