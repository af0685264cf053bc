// The list of families, each defined at the end of its file. A new one adds a line here.
#pragma once

#include "models/family.h"

// clang-format off
#define HEED_FAMILIES(FAMILY) \
  FAMILY(albert) \
  FAMILY(bart) \
  FAMILY(bert) \
  FAMILY(bloom) \
  FAMILY(deberta) \
  FAMILY(distilbert) \
  FAMILY(gemma2) \
  FAMILY(gemma3) \
  FAMILY(gpt2) \
  FAMILY(gpt_neox) \
  FAMILY(granite) \
  FAMILY(llama) \
  FAMILY(m2m100) \
  FAMILY(marian) \
  FAMILY(mistral) \
  FAMILY(mixtral) \
  FAMILY(modernbert) \
  FAMILY(mpnet) \
  FAMILY(mpt) \
  FAMILY(olmo2) \
  FAMILY(pegasus) \
  FAMILY(phi3) \
  FAMILY(qwen2) \
  FAMILY(qwen3) \
  FAMILY(qwen3_moe) \
  FAMILY(recurrent) \
  FAMILY(roberta) \
  FAMILY(smollm3) \
  FAMILY(t5) \
  FAMILY(transformer) \
  FAMILY(vit) \
  FAMILY(whisper)
// clang-format on

namespace heed {

#define HEED_DECLARE(name) Family name##_family();
HEED_FAMILIES(HEED_DECLARE)
#undef HEED_DECLARE

}  // namespace heed
