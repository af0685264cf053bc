// How many layers and heads a model's attention has, without a pass.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heed/inspect/record.h"
#include "heed/plot/picture.h"

namespace heed::inspect {

/// The number of heads of each layer, 0 for a layer without that kind of attention. Empty for models without
/// stacks of layers (recurrent ones), and for a pooling.
std::vector<std::int64_t> attention_heads(const Model& model, const AttentionKind& kind);

/// What a page says of the kinds.
std::map<std::string, AttentionSize> attention_sizes(const Model& model,
                                                     const std::vector<AttentionKind>& kinds);

}  // namespace heed::inspect
