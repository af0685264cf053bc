// The heads of a model: their taps and their attention, and changes of them, and steering, as listeners.
#pragma once

#include <atomic>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "explore/model/explored_model.h"
#include "heed/nn/attention.h"
#include "heed/nn/tap.h"

namespace heed::explore {

/// The tap of the heads' outputs (before the output projection) of a kind of attention in a layer.
std::string heads_tap(const AttentionKind& kind, std::int64_t layer);

/// Throws Error that begins with `where` for a head that the model lacks.
void check_head(const ExploredModel& model, const HeadChoice& head, const std::string& where);

/// Whether a run is that of the model as it is.
bool is_unchanged(const RunRequest& run);

/// Registers what a run changes: steering, and the changes of heads in their order. For a patch, runs the
/// model, not steered, on its text; in an encoder-decoder, a text without a target goes with the target of
/// `text`. Throws Error for kinds, layers, heads and vectors that the model lacks, and for a text of another
/// number of tokens; Canceled once `stop` is true.
void add_changes(Taps& taps, const ExploredModel& model, const ExploredText& text, const RunRequest& run,
                 const std::atomic<bool>& stop);

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

/// The changes as the request spells them.
nlohmann::json changes_json(const std::vector<HeadChange>& changes);

}  // namespace heed::explore
