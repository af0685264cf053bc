// Parts of a layer: attention, feed-forward and every other map from [B, T, D] to [B, T, D], held as one
// type; their state while decoding; and Pass, the data that the parts of a stack share.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "heed/export.h"
#include "heed/nn/context.h"
#include "heed/nn/positions.h"
#include "heed/ops/attention.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// Number of tokens of each of R rows.
struct SequenceLengths {
  std::int64_t longest = 0;
  std::vector<std::int64_t> each = {};  ///< per row; empty while all rows have `longest`
  std::int64_t of(std::int64_t row) const {
    return each.empty() ? longest : each[static_cast<std::size_t>(row)];
  }
};

/// The data that the parts of a stack share during one forward pass, such as cosines, sines and score biases,
/// which are computed once for all layers. Threads: one at a time; each forward pass has its own.
class Pass {
 public:
  explicit Pass(Context& user_context) : context(user_context) {}
  /// Another pass over the same tokens, with the same shared data and nothing collected.
  Pass(Context& user_context, const Pass& pass);

  Context& context;             ///< taps, dropout and cancellation
  PositionIds positions = {};   ///< of the tokens of this pass
  AttentionOptions self = {};   ///< which tokens self-attention may attend to
  AttentionOptions cross = {};  ///< which positions of `memory` cross-attention may attend to
  Tensor rotation = {};  ///< [T, r]: cosines, then sines, for queries and keys in place of those of positions
  Tensor memory = {};    ///< [B, S, D']; undefined without cross-attention, or when states hold it
  std::vector<std::int64_t> lengths;  ///< tokens of each row, less padding; empty: all. Packed: of [1, N, D]
  SequenceLengths past = {};          ///< tokens of earlier passes, which states hold
  /// The token of each row that is read after the stack, which then gives [B, 1, D]: its last layer computes
  /// the others only as far as attention reads them. Empty: all tokens are read.
  std::vector<std::int64_t> read = {};
  Tensor layer_input = {};  ///< of the running layer, [B, T, D]
  std::string name = {};    ///< of the running part: the prefix of its taps
  /// Values that parts return to the model, by kind, in the order of the layers: `router_logits`.
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

/// The token read[b] of each row b of x [B, T, ...]: [B, 1, ...]. Of packed rows [1, N, ...], the tokens
/// read[0], read[1], ...: [1, R, ...].
Tensor tokens_at(const Tensor& x, const std::vector<std::int64_t>& read);

/// New rows of a state: row i becomes a copy of the old row from[i].
struct RowReorder {
  std::vector<std::int64_t> from;
  std::int64_t old_rows = 0;
  std::vector<std::int64_t> lengths = {};  ///< tokens of the old row from[i]
  /// The first common[i] of them are also in the old row i, from the same pass. 0 for i >= old_rows.
  std::vector<std::int64_t> common = {};
  std::vector<bool> same_source = {};  ///< whether the old rows i and from[i] have the same memory
};

/// Rows of two states of one part, the second's after the first's.
struct RowJoin {
  std::int64_t rows = 0, more_rows = 0;
  std::int64_t longest = 0, more_longest = 0;  ///< tokens of the longest row of each, at least one
};

/// The state of a part for R rows of tokens: keys and values, a recurrent vector, or a running sum. Threads:
/// one at a time.
class PartState {
 public:
  virtual ~PartState() = default;
  virtual void reorder(const RowReorder& rows) = 0;
  /// Removes all tokens but the first `length` of every row; Pass::past of the next pass agrees. Throws Error
  /// if they cannot be removed from the state.
  virtual void truncate(std::int64_t length) = 0;
  /// As StackState::chunk_size(). A part that returns 0 needs neither join() nor copy_row().
  virtual std::int64_t chunk_size() const { return 0; }
  /// Appends copies of the rows of `other`, a state of the same part. Throws Error for another cache_dtype.
  virtual void join(const PartState&, const RowJoin&) { refuse_rows(); }
  /// The first `length` of the `row_length` tokens of a row as a separate state. Throws Error as truncate()
  /// does.
  virtual std::unique_ptr<PartState> copy_row(std::int64_t /*row*/, std::int64_t /*row_length*/,
                                              std::int64_t /*length*/) const {
    refuse_rows();
  }
  virtual std::size_t bytes() const = 0;

 private:
  [[noreturn]] static void refuse_rows() {
    throw Error("decoding: expected rows that depend on their own tokens alone, got rows that do not");
  }
};

/// Holds a part of any kind; copies share it. A kind has `Tensor operator()(const Tensor& x, Pass& pass,
/// PartState* state) const`; if it has a state, also `std::unique_ptr<PartState> make_state(const Tensor&
/// memory) const`. While decoding, its call operator receives this state (otherwise null). Threads: several
/// may use one object at once.
class Part {
 public:
  template <class Kind>
  requires(!std::same_as<Kind, Part>) Part(Kind kind)
      : held_(std::make_shared<const Holder<Kind>>(std::move(kind))) {}

  Tensor operator()(const Tensor& x, Pass& pass, PartState* state) const {
    return held_->run(x, pass, state);
  }
  /// An empty state; null for a part without a state. `memory` [B, S, D'] is that of cross-attention.
  std::unique_ptr<PartState> make_state(const Tensor& memory) const { return held_->make_state(memory); }
  /// The part, if it is of this kind; else null.
  template <class Kind>
  const Kind* as() const {
    const auto* holder = dynamic_cast<const Holder<Kind>*>(held_.get());
    return holder != nullptr ? &holder->kind : nullptr;
  }

 private:
  struct Held {
    virtual ~Held() = default;
    virtual Tensor run(const Tensor& x, Pass& pass, PartState* state) const = 0;
    virtual std::unique_ptr<PartState> make_state(const Tensor& memory) const = 0;
  };
  template <class Kind>
  struct Holder final : Held {
    explicit Holder(Kind held) : kind(std::move(held)) {}
    Tensor run(const Tensor& x, Pass& pass, PartState* state) const override { return kind(x, pass, state); }
    std::unique_ptr<PartState> make_state(const Tensor& memory) const override {
      if constexpr (requires { kind.make_state(memory); }) return kind.make_state(memory);
      return nullptr;
    }
    Kind kind;
  };
  std::shared_ptr<const Held> held_;
};

}  // namespace heed
