// An attention whose weights are a softmax of scores, by its place in a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "heed/models/model.h"
#include "heed/nn/attention.h"
#include "heed/nn/stack.h"

namespace heed::inspect {

struct ScoredAttention {
  std::string name;                               ///< of its taps: `decoder.layers.2.cross_attn`
  const Sublayer* sublayer = nullptr;             ///< null where the layer has none of this name
  const MultiHeadAttention* attention = nullptr;  ///< null also where that has no scores
  std::size_t step = 0;                           ///< of the layer
  bool is_cross = false;
  bool disentangled = false;  ///< with terms of positions that no ScoreBias holds (DeBERTa)

  /// What the product of a query and a key of d numbers is multiplied by.
  double scale(std::int64_t d) const;
  /// Whether scores have terms of positions beside the product.
  bool has_positions() const { return disentangled || (attention != nullptr && attention->bias != nullptr); }
  /// The head of keys and values that a head of queries reads.
  std::int64_t key_head(std::int64_t head) const { return head / (attention->heads / attention->kv_heads); }
};

/// The sublayer `part` (`self_attn`, `cross_attn`) of a layer.
ScoredAttention scored_attention(const Model& model, const std::string& stack, const std::string& part,
                                 std::int64_t layer);

}  // namespace heed::inspect
