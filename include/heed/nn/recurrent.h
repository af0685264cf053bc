// Recurrent layers as parts of a model, and the attention of recurrent decoders over their source.
#pragma once

#include <cstdint>
#include <functional>

#include "heed/export.h"
#include "heed/nn/linear.h"
#include "heed/ops/recurrent.h"

namespace HEED_API heed {

class RepeatedLinear;

enum class RecurrentCell { lstm, gru };
/// Number of gates of a cell: its weights have this many rows for each number of the state.
constexpr std::int64_t gates_of(RecurrentCell cell) { return cell == RecurrentCell::lstm ? 4 : 3; }

/// Values that replace a layer's own at every step; undefined: none.
struct RecurrentReplacements {
  Tensor gates = {};   // [B, T, G H]
  Tensor cells = {};   // [B, T, H], of LSTM alone
  Tensor states = {};  // [B, T, H]
};

/// lstm() or gru() with weights of its own, in one direction.
struct RecurrentLayer {
  RecurrentCell cell = RecurrentCell::lstm;
  Weight weight_ih = {}, weight_hh = {};
  Tensor bias_ih = {}, bias_hh = {};
  /// x [B, T, D] to y [B, T, H] and the last state.
  RecurrentResult operator()(const Tensor& x, const RecurrentState& initial = {},
                             const RecurrentOptions& options = {}) const;
  /// The same step by step, where each step continues from the values given for it; the result has gates and
  /// cells.
  RecurrentResult replay(const Tensor& x, const RecurrentState& initial, const RecurrentOptions& options,
                         const RecurrentReplacements& given) const;
};

/// A linear map that one pass applies many times, step by step. While a gradient is recorded, the weight is
/// packed once, and its gradient is one product over all steps. An object serves one pass.
/// Threads: one at a time; each forward pass has its own.
class StepLinear {
 public:
  explicit StepLinear(Linear map);
  /// map(x), x [R, in].
  Tensor operator()(const Tensor& x) const;

 private:
  Linear map_;
  std::shared_ptr<RepeatedLinear> recorded_;  // null where the weight needs no gradient
};

/// Called with each value of a step as it is computed: `gates` [R, G H], `cell` [R, H] (LSTM), `state` [R,
/// H]. A replacement is used in the rest of the step and in later steps.
using CellListener = std::function<void(const char* what, Tensor& value)>;

/// One step of a RecurrentLayer at a time, for inputs that depend on the last output. An object serves one
/// pass.
/// Threads: one at a time; each forward pass has its own.
class RecurrentSteps {
 public:
  explicit RecurrentSteps(const RecurrentLayer& layer);
  /// x [R, D]; the state must be defined.
  RecurrentState operator()(const Tensor& x, const RecurrentState& state,
                            const CellListener& listener = nullptr) const;

 private:
  RecurrentCell cell_;
  StepLinear of_input_, of_state_;
};

/// How a decoder's state q is compared with the encoder's output k at a source position.
enum class AlignmentScore {
  dot,       ///< q . k (Luong, Pham and Manning 2015)
  general,   ///< q . W k (the same)
  additive,  ///< v . tanh(W q + U k) (Bahdanau, Cho and Bengio 2015); Luong's `concat` is the same function
};

/// The source of B rows, prepared once: the keys that queries are compared with, and the values that are
/// averaged.
struct SourceMemory {
  Tensor keys;    // [B, S, A]
  Tensor values;  // [B, S, D]
  Tensor mask;    // bool [B, S], false for padding; may be undefined
  /// Row i is the old row rows[i].
  SourceMemory rows(const Tensor& rows) const;
};

/// Attention over a source: softmax(scores) times the encoder's outputs, as the weights and settings of one
/// function. Padding is not attended to; a row of padding alone gives 0.
struct SourceAttention {
  AlignmentScore score = AlignmentScore::dot;
  Linear query = {};  // [A, D]: W of `additive`
  Linear key = {};    // [A, D]: U of `additive`; W of `general`, with A = D
  Tensor v = {};      // [1, A], of `additive`

  /// `memory` [B, S, D], `mask` bool [B, S] or undefined.
  SourceMemory prepare(const Tensor& memory, const Tensor& mask) const;
  /// The context [B, T, D] of queries [B, T, A]: decoder states, projected by `query` if it is defined.
  /// `weights`, if not null, receives the weights [B, 1, T, S].
  Tensor context(const Tensor& queries, const SourceMemory& memory, Tensor* weights = nullptr) const;
  /// The inputs of the softmax, [B, 1, T, S]: -inf for padding. No gradient.
  Tensor scores(const Tensor& queries, const SourceMemory& memory) const;
};

/// The context [B, T, D] that weights [B, 1, T, S] give.
Tensor context_of(const Tensor& weights, const SourceMemory& memory);

}  // namespace heed
