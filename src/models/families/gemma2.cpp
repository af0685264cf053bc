// The Gemma 2 family (Gemma Team 2024, "Gemma 2: improving open language models at a practical size"): capped
// scores and logits, and a window in every other layer. Its parts are those of llama_common.h.
#include "models/families.h"
#include "models/families/gemma_common.h"

namespace heed {
namespace {

LlamaConfig parse_gemma2(const Config& json) {
  LlamaConfig c = parse_gemma(json, 8192);
  c.score_cap = gemma_cap(json, "attn_logit_softcapping", 50);
  c.logit_cap = gemma_cap(json, "final_logit_softcapping", 30);
  std::vector<bool> slides;
  for (std::int64_t i = 0; i < c.layers; ++i) slides.push_back(i % 2 == 0);
  read_gemma_windows(json, std::move(slides), c);
  return c;
}

}  // namespace

Family gemma2_family() { return family<parse_gemma2, build_llama>({"gemma2"}); }

}  // namespace heed
