// The Granite family (Granite Team, IBM 2024, "Granite 3.0 language models"): LLaMA with four multipliers, as
// in maximal update parametrization (Yang et al. 2021). Its parts are those of llama_common.h.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"

namespace heed {
namespace {

LlamaConfig parse_granite(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, {});
  c.read_biases(json);
  c.given_scale = c.embedding_scale = positive_number(json, "embedding_multiplier", 1);
  c.attention_scale = positive_number(json, "attention_multiplier", 1);
  c.residual_scale = positive_number(json, "residual_multiplier", 1);
  c.logit_scale = 1 / positive_number(json, "logits_scaling", 1);
  return c;
}

}  // namespace

Family granite_family() { return family<parse_granite, build_llama>({"granite"}); }

}  // namespace heed
