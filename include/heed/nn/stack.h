// Transformer layers and stacks of them. A layer consists of residual steps; a step adds the results of one
// or more sublayers to their input. Most architectures differ in where the norms are:
//
//   pre-norm            x + f(norm(x))                   Sublayer::norm_before (Xiong et al. 2020)
//   post-norm           norm(x + f(x))                   ResidualStep::norm_sum (Vaswani et al. 2017)
//   before and after    x + norm'(f(norm(x)))            Sublayer::norm_before and norm_after
//   parallel            x + f(norm(x)) + g(norm'(x))     two sublayers of one step (Wang et al. 2021)
//   residual from norm  n + f(n) with n = norm(x)        ResidualStep::norm_input (Shoeybi et al. 2019)
//
// Taps, all [B, T, D]: `STACK.embed` is the input of the first layer, and `STACK.final_norm` the result of
// the last norm. The residual stream of layer I has the taps `STACK.layers.I.in` (before the layer), `.mid`
// (after its first residual step), `.mid2` (after the second of three) and `.out` (after the last step and
// the layer's steering vector, if any). The taps of a sublayer and its part begin with
// `STACK.layers.I.SUBLAYER`: `.norm` is the result of the norm before the part, `.norm_after` the result of
// the norm after it, and `.added` the value that is added to the stream, after the family's multiplier, if
// any. With a norm of the sum (post-norm), `mid` and `out` are its results.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/nn/norm.h"
#include "heed/nn/part.h"

namespace HEED_API heed {

/// dropout(multiplier * scale * norm_after(part(norm_before(x)))).
struct Sublayer {
  std::string name;  ///< in the taps of the part: "self_attn", "cross_attn", "feed_forward"
  std::optional<Norm> norm_before = {};
  Part part;
  std::optional<Norm> norm_after = {};
  double multiplier = 1.0;
  Tensor scale =
      {};  ///< [D], or undefined: LayerScale (Touvron et al. 2021, "Going deeper with image transformers")
  double dropout = 0.0;
};

/// norm_sum(n + the sum of the sublayers of n), where n = norm_input(x).
struct ResidualStep {
  std::vector<Sublayer> sublayers;
  std::optional<Norm> norm_input = {};
  std::optional<Norm> norm_sum = {};
  bool clears_padding = false;  ///< the result is zero at padding
};

/// x + dropout(part(norm(x))).
ResidualStep pre_norm(std::string name, Norm norm, Part part, double dropout = 0.0);
/// norm(x + dropout(part(x))).
ResidualStep post_norm(std::string name, Norm norm, Part part, double dropout = 0.0);

/// Layers that share their weights are copies of one another.
struct Layer {
  std::vector<ResidualStep> steps;
  Tensor steering = {};  ///< [D], added to the stream of every token after the last step; or undefined
};

class StackState;

/// Threads: several may use one object at once.
struct Stack {
  std::string name = "encoder";
  std::vector<Layer> layers = {};
  std::optional<Norm> final_norm = {};
  /// x [B, T, D] -> [B, T, D]; with Pass::read, [B, 1, D]. With a state, the T tokens follow those of earlier
  /// passes.
  Tensor operator()(Tensor x, Pass& pass, StackState* state = nullptr) const;
};

/// The state of a stack for R rows of tokens while decoding. Threads: one at a time.
class StackState {
 public:
  /// No tokens yet. With `memory` [R, S, D'], cross-attention of row i attends to memory[i].
  StackState(const Stack& stack, std::int64_t rows, const Tensor& memory = {});

  std::int64_t rows() const { return static_cast<std::int64_t>(sources_.size()); }
  const SequenceLengths& lengths() const { return lengths_; }
  /// The positions of the next tokens.
  PositionIds positions() const;
  /// The number of the memory that each row attends to: at first the row itself; join() continues from the
  /// largest number.
  const std::vector<std::int64_t>& sources() const { return sources_; }
  /// Row i becomes a copy of the old row rows[i]; the number of rows may change. Throws Error when there is
  /// no such row.
  void reorder(std::span<const std::int64_t> rows);
  /// Removes all tokens but the first `length` of every row; the memory of cross-attention stays. Throws
  /// Error for more tokens than the shortest row has, and as PartState::truncate().
  void truncate(std::int64_t length);
  /// Appends copies of the rows of `other`, which is a state of the same stack. Both have tokens. Throws
  /// Error as PartState::join().
  void join(const StackState& other);
  /// The first `length` tokens of a row as a separate state. Throws Error if the row or the tokens do not
  /// exist, and as PartState::copy_row().
  StackState copy_row(std::int64_t row, std::int64_t length) const;
  /// Tokens may be read in several passes, with the same bits as in one, if each pass but the last ends at a
  /// multiple of this number. 1: anywhere, and truncate() may go back to any token. 0: nowhere.
  std::int64_t chunk_size() const;
  /// Memory of all parts.
  std::size_t bytes() const;

 private:
  friend struct Stack;
  StackState() = default;
  /// Tells the pass about the earlier tokens.
  void begin(Pass& pass, std::int64_t time) const;
  /// Counts the tokens of a finished pass.
  void advance(const Pass& pass, std::int64_t time);

  std::vector<std::unique_ptr<PartState>> parts_;  // of all sublayers in order; null for those without
  SequenceLengths lengths_;
  std::vector<std::int64_t> sources_;
  // For each row, a number for every token: equal prefixes mean that the tokens come from the same pass and
  // row, so that their keys and values are equal.
  std::vector<std::vector<std::int64_t>> history_;
  std::int64_t tokens_seen_ = 0;
};

}  // namespace heed
