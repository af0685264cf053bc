// The Qwen2 family: its config; the parts are those of llama_common.h.
#include "models/families.h"
#include "models/families/llama_common.h"

namespace heed {
namespace {

LlamaConfig parse_qwen2(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, {.kv_heads = 32, .positions = 32768});
  c.qkv_bias = true;
  c.read_layer_windows(json);
  return c;
}

}  // namespace

Family qwen2_family() { return family<parse_qwen2, build_llama>({"qwen2"}); }

}  // namespace heed
