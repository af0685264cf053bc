// The attention of one layer, as the model holds it.
#pragma once

#include <string>

#include "explore/explored_model.h"
#include "heed/nn/attention.h"

namespace heed::explore {

/// An attention whose weights are a softmax of scores.
struct AttentionPart {
  std::string name;                               ///< of its taps: `decoder.layers.2.cross_attn`
  const MultiHeadAttention* attention = nullptr;  ///< null where a layer has none, or one without scores
  bool disentangled = false;  ///< with terms of positions that no ScoreBias holds (DeBERTa)

  /// What the product of a query and a key of d numbers is multiplied by.
  double scale(std::int64_t d) const;
  /// Whether scores have terms of positions beside the product.
  bool has_bias() const { return disentangled || (attention != nullptr && attention->bias != nullptr); }
};

AttentionPart attention_part(const ExploredModel& model, const AttentionKind& kind, std::int64_t layer);

}  // namespace heed::explore
