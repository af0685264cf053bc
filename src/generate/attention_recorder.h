// AttentionRecorder: records attention at every step of a search, and the row of each step that each
// hypothesis came from. Rows change their indices (and parents) from step to step, so a hypothesis's
// attention can only be collected at its end, by following its chain of parents back. (Reading column i of
// the final order is a common bug.)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heed/models/model.h"
#include "heed/nn/context.h"
#include "heed/nn/tap.h"

namespace heed::generate {

/// A hypothesis without tokens.
constexpr std::int64_t kRoot = -1;

class AttentionRecorder {
 public:
  /// Records in addition to the listeners that `context` already has.
  AttentionRecorder(const std::vector<std::string>& patterns, const Context& context);
  AttentionRecorder(const AttentionRecorder&) = delete;
  AttentionRecorder& operator=(const AttentionRecorder&) = delete;

  /// Executes a decoding step and keeps the values of the requested taps. If `lengths` is given, the step has
  /// the first lengths[i] ids of row i.
  Tensor step(Decoding& decoding, const Tensor& ids, std::span<const std::int64_t> lengths);
  /// Records that the last step generated a token for hypothesis `parent` in row `row`. Returns the extended
  /// hypothesis.
  std::int64_t extend(std::int64_t parent, std::int64_t row);
  /// Returns f32 [H, T, S] per tap, for the T tokens of a hypothesis.
  TensorMap collect(std::int64_t hypothesis) const;
  /// Throws Error if a pattern matched no tap.
  void require_all_fired() const { taps_.require_all_fired(); }
  /// Of the steps.
  Context& context() { return context_; }

 private:
  struct Node {
    std::int64_t parent;
    std::int64_t step;
    std::int64_t row;
  };
  void keep(const std::string& name, const Tensor& value);

  Taps taps_;
  Context context_;
  bool active_;
  std::vector<std::int64_t> lengths_;  // of the current step; empty if all rows have the length of `ids`
  std::vector<TensorMap> steps_;       // per step: the last position's attention, f32 [R, H, S]
  std::vector<Node> nodes_;
};

}  // namespace heed::generate
