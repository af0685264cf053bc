// What Gemma 2 and 3 have on top of LLaMA: norms before and after each sublayer, whose weights are stored
// less 1; scaled embeddings; a scale of scores from a number of its own; layers with a window among others.
#pragma once

#include <vector>

#include "models/families/llama_common.h"

namespace heed {

/// The keys that both have, but for windows; `positions` where the config has none.
LlamaConfig parse_gemma(const Config& json, std::int64_t positions, const RopeKeys& rope = {});
/// Gives the window of the config to the layers that `layer_types` names, or else to those of `slides`.
void read_gemma_windows(const Config& json, std::vector<bool> slides, LlamaConfig& config);
/// The cap under `key`; 0 where the config says null.
double gemma_cap(const Config& json, const char* key, double default_value);

}  // namespace heed
