// The OLMo 2 family (OLMo Team 2025, "2 OLMo 2 Furious"): LLaMA with norms after attention and feed-forward
// instead of before them, and norms of queries and keys over all heads together. Its parts are those of
// llama_common.h.
#include "models/families.h"
#include "models/families/llama_common.h"

namespace heed {
namespace {

LlamaConfig parse_olmo2(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, {.norm_eps = 1e-5, .padding = 1});
  c.qkv_bias = c.out_bias = json.boolean("attention_bias", false);
  c.norm_before = false;
  c.norm_after = true;
  c.qk_norm = c.qk_norm_joins_heads = true;
  return c;
}

}  // namespace

Family olmo2_family() { return family<parse_olmo2, build_llama>({"olmo2"}); }

}  // namespace heed
