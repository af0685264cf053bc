// Mistakes in attention, made on purpose by listeners that replace values of taps, so that the model itself
// has no switch for them.
#pragma once

#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "heed/inspect/record.h"
#include "inspect/scored_attention.h"

namespace heed::inspect {

/// Of these words:
///   positions      every token has the position of the first, and scores have no terms of positions
///   mask           a decoder's tokens attend to later ones too
///   softmax-axis   weights are the softmax over the queries in place of the keys
///   scale          scores are products of queries and keys, not multiplied by anything
using Mistakes = std::set<std::string>;

/// The listeners of one pass. It outlives the pass.
class AttentionMistakes {
 public:
  AttentionMistakes(const Model& model, const std::vector<AttentionKind>& kinds);
  /// Throws Error that begins with `where` for a mistake that the model cannot make.
  void check(const Mistakes& made, const std::string& where) const;
  /// Makes them in the next pass, over `inputs`. Runs the model for positions. Throws Canceled once `stop` is
  /// true.
  void listen(Taps& taps, const Mistakes& made, const TensorMap& inputs, const std::atomic<bool>& stop);

 private:
  /// An attention, with what its listeners hear during the pass.
  struct Heard {
    ScoredAttention at;
    bool is_causal = false;
    Tensor q = {}, k = {}, v = {}, scores = {};
  };
  static Tensor plain_scores(const Heard& one, bool with_positions);
  static void listen_to_scores(Taps& taps, Heard& one, const Mistakes& made);

  const Model& model_;
  std::vector<Heard> attentions_;
};

}  // namespace heed::inspect
