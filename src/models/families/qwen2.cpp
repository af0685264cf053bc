// The Qwen2 family: its config; the parts are those of llama_common.h.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"
#include "models/families/rope_config.h"

namespace heed {
namespace {

LlamaConfig parse_qwen2(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, 32);
  c.qkv_bias = true;
  c.positions = json.positive_integer("max_position_embeddings", 32768);
  c.rotary = rotary_options(json, c.head_dim, c.positions);
  c.read_layer_windows(json);
  ignore_common_keys(json);
  return c;
}

}  // namespace

Family qwen2_family() { return family<parse_qwen2, build_llama>({"qwen2"}); }

}  // namespace heed
