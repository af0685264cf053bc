// Pass: what the parts of a stack share during one forward pass. It is made once for a pass, and so are the
// cosines, sines and score biases in it, which all layers use.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/nn/context.h"
#include "heed/nn/positions.h"
#include "heed/nn/rotary.h"
#include "heed/ops/attention.h"

namespace HEED_API heed {

/// Number of tokens of each of R rows.
struct SequenceLengths {
  std::int64_t longest = 0;
  std::vector<std::int64_t> each = {};  ///< per row; empty while all rows have `longest`
  std::int64_t of(std::int64_t row) const {
    return each.empty() ? longest : each[static_cast<std::size_t>(row)];
  }
};

/// Threads: one at a time; each forward pass has its own.
class Pass {
 public:
  explicit Pass(Context& user_context) : context(user_context) {}
  /// A pass over the same tokens once more: with all that layers share, and nothing collected.
  Pass(Context& user_context, const Pass& pass);

  Context& context;             ///< taps, dropout and cancellation
  PositionIds positions = {};   ///< of the tokens of this pass
  AttentionOptions self = {};   ///< which tokens self-attention may attend to
  AttentionOptions cross = {};  ///< which positions of `memory` cross-attention may attend to
  Tensor rotation = {};  ///< [T, r]: cosines, then sines, for queries and keys in place of those of positions
  Tensor memory = {};    ///< [B, S, D']; undefined without cross-attention, or when states hold it
  std::vector<std::int64_t> lengths;  ///< tokens of each row that are not padding; empty: all of them
  SequenceLengths past = {};          ///< tokens of earlier passes, which states hold
  Tensor layer_input = {};            ///< of the running layer, [B, T, D]
  std::string name = {};              ///< of the running part: the prefix of its taps
  /// What parts hand to the model, by kind, in the order of the layers: `router_logits`.
  std::map<std::string, std::vector<Tensor>> collected = {};

  /// Whether `name`.what has a listener.
  bool wants(const char* what) const {
    return context.taps != nullptr && context.taps->wants(name + "." + what);
  }
  /// Passes `value` to the listeners of `name`.what, if there are any; they may replace it.
  void tap(const char* what, Tensor& value, TapAxes axes = kTokenAxes, const TapPart& part = {});
  /// The cosines and sines of the tokens of x [B, H, T, d], in its dtype.
  const Tensor& cos_sin(const RotaryPositions& rotary, const Tensor& x);
  /// The tensors that all layers share and that may need a gradient: the memory and score biases.
  std::vector<Tensor*> differentiable();
  /// `self` with the score bias for queries [B, H, T, d] and keys [B, K, S, d].
  const AttentionOptions& biased(const ScoreBias& bias, const Tensor& queries, const Tensor& keys);

 private:
  std::map<const RotaryPositions*, Tensor> cos_sin_;
  std::map<const ScoreBias*, AttentionOptions> biased_;
};

}  // namespace heed
