// The Qwen3 family (Yang et al. 2025, "Qwen3 technical report"): Qwen2 with norms of queries and keys. Table
// and parts are those of llama_common.h.
#include "models/families.h"
#include "models/families/llama_common.h"

namespace heed {
namespace {

LlamaConfig parse_qwen3(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, {.kv_heads = 32, .head_dim = 128, .positions = 32768});
  c.qk_norm = true;
  c.qkv_bias = c.out_bias = json.boolean("attention_bias", false);
  c.read_layer_windows(json);
  return c;
}

}  // namespace

Family qwen3_family() { return family<parse_qwen3, build_llama>({"qwen3"}); }

}  // namespace heed
