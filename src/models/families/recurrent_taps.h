// The taps of recurrent layers: of layers that run over all steps at once, and of those that run step by
// step.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heed/nn/context.h"
#include "heed/nn/recurrent.h"

namespace heed {

/// The tap `STACK.layers.I.WHAT`.
std::string layer_tap(const char* stack, std::size_t layer, const char* what);

/// layer(x, initial, options) with the taps NAME.gates [B, T, G H], NAME.cell [B, T, H] (LSTM) and NAME.state
/// [B, T, H]. Where a listener replaces one, the steps run again, each going on from what was given.
RecurrentResult run_with_taps(const RecurrentLayer& layer, const Tensor& x, const RecurrentState& initial,
                              RecurrentOptions options, Context& context, const std::string& name);

/// The taps of a decoder's layers. Those of a pass over all steps at once are offered as they are computed.
/// In a pass step by step, each is collected over the steps and offered once, for all of them; where a
/// listener replaces it, the steps run again with what was given for each.
class DecoderTaps {
 public:
  enum class Runs { whole, stepwise };
  DecoderTaps(Context& context, Runs runs) : context_(context), runs_(runs) {}

  bool wants(std::size_t layer, const char* what) const {
    return context_.taps != nullptr && context_.taps->wants(layer_tap("decoder", layer, what));
  }
  /// Of each layer, whether a tap listens to the values of its cells.
  std::vector<bool> to_cells(std::size_t layers) const;
  /// `value` has all steps, or the next one (then it may lack the axis of queries: [B, D]).
  void offer(std::size_t layer, const char* what, Tensor& value, TapAxes axes = kTokenAxes);
  /// Of a pass step by step: calls `run`, which starts from the first step in each call, and emits the
  /// collected values; returns the last result.
  Tensor run_and_emit(const std::function<Tensor()>& run);

 private:
  struct Values {
    std::string name;
    TapAxes axes;
    std::vector<Tensor> steps = {};
    Tensor given = {};      // what a listener put in their place
    std::int64_t next = 0;  // the step that comes
  };
  void offer_step(Values& values, Tensor& value) const;

  Context& context_;
  Runs runs_;
  std::vector<Values> values_ = {};  // in the order in which a step computes them
  std::size_t emitted_ = 0;          // those that listeners have got
};

}  // namespace heed
