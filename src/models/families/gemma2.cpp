// The Gemma 2 family (Gemma Team 2024, "Gemma 2: improving open language models at a practical size"): capped
// scores and logits, and a window in every other layer. Its parts are those of llama_common.h.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/gemma_common.h"
#include "models/families/rope_config.h"

namespace heed {
namespace {

LlamaConfig parse_gemma2(const Config& json) {
  LlamaConfig c = parse_gemma(json);
  c.score_cap = gemma_cap(json, "attn_logit_softcapping", 50);
  c.logit_cap = gemma_cap(json, "final_logit_softcapping", 30);
  c.positions = json.positive_integer("max_position_embeddings", 8192);
  c.rotary = rotary_options(json, c.head_dim, c.positions);
  std::vector<bool> slides;
  for (std::int64_t i = 0; i < c.layers; ++i) slides.push_back(i % 2 == 0);
  read_gemma_windows(json, std::move(slides), c);
  ignore_common_keys(json);
  return c;
}

}  // namespace

Family gemma2_family() { return family<parse_gemma2, build_llama>({"gemma2"}); }

}  // namespace heed
