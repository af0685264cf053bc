// The Qwen3 family (Yang et al. 2025, "Qwen3 technical report"): Qwen2 with norms of queries and keys. Table
// and parts are those of llama_common.h.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"
#include "models/families/rope_config.h"

namespace heed {
namespace {

LlamaConfig parse_qwen3(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, 32);
  c.head_dim = json.positive_integer("head_dim", 128);
  c.qk_norm = true;
  c.qkv_bias = c.out_bias = json.boolean("attention_bias", false);
  c.positions = json.positive_integer("max_position_embeddings", 32768);
  c.rotary = rotary_options(json, c.head_dim, c.positions);
  c.read_layer_windows(json);
  ignore_common_keys(json);
  return c;
}

}  // namespace

Family qwen3_family() { return family<parse_qwen3, build_llama>({"qwen3"}); }

}  // namespace heed
