// The LLaMA family: its config; the parts are those of llama_common.h.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"
#include "models/families/rope_config.h"

namespace heed {
namespace {

LlamaConfig parse_llama(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, 0);
  c.qkv_bias = c.out_bias = json.boolean("attention_bias", false);
  c.mlp_bias = json.boolean("mlp_bias", false);
  c.positions = json.positive_integer("max_position_embeddings", 2048);
  c.rotary = rotary_options(json, c.head_dim, c.positions);
  ignore_common_keys(json);
  return c;
}

}  // namespace

Family llama_family() { return family<parse_llama, build_llama>({"llama"}); }

}  // namespace heed
