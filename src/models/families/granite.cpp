// The Granite family (Granite Team, IBM 2024, "Granite 3.0 language models"): LLaMA with four multipliers, as
// in maximal update parametrization (Yang et al. 2021). Its parts are those of llama_common.h.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"
#include "models/families/rope_config.h"

namespace heed {
namespace {

LlamaConfig parse_granite(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, 0);
  c.qkv_bias = c.out_bias = json.boolean("attention_bias", false);
  c.mlp_bias = json.boolean("mlp_bias", false);
  c.positions = json.positive_integer("max_position_embeddings", 2048);
  c.rotary = rotary_options(json, c.head_dim, c.positions);
  c.given_scale = c.embedding_scale = positive_number(json, "embedding_multiplier", 1);
  c.attention_scale = positive_number(json, "attention_multiplier", 1);
  c.residual_scale = positive_number(json, "residual_multiplier", 1);
  c.logit_scale = 1 / positive_number(json, "logits_scaling", 1);
  ignore_common_keys(json);
  return c;
}

}  // namespace

Family granite_family() { return family<parse_granite, build_llama>({"granite"}); }

}  // namespace heed
