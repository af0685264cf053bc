// Remembers what taps showed at every step of a search, and which row of which step each hypothesis came
// through. Rows change their places (and their parents) from step to step, so a hypothesis's attention can
// only be put together at its end, walking its chain of parents back: reading column i of the last order is
// the classic bug.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heed/models/model.h"
#include "heed/nn/context.h"
#include "heed/nn/tap.h"

namespace heed::generate {

/// A hypothesis that has no token yet.
constexpr std::int64_t kRoot = -1;

class AttentionRecorder {
 public:
  /// Listens beside the listeners that `context` has.
  AttentionRecorder(const std::vector<std::string>& patterns, const Context& context);
  AttentionRecorder(const AttentionRecorder&) = delete;
  AttentionRecorder& operator=(const AttentionRecorder&) = delete;

  /// A decoding step, of the first lengths[i] ids of row i where lengths are given: what the taps emit in it
  /// is kept, where anybody asked.
  Tensor step(Decoding& decoding, const Tensor& ids, std::span<const std::int64_t> lengths);
  /// The last step made a token for hypothesis `parent` in row `row`; returns the longer hypothesis.
  std::int64_t extend(std::int64_t parent, std::int64_t row);
  /// Per tap f32 [H, T, S] for the T tokens of a hypothesis.
  TensorMap collect(std::int64_t hypothesis) const;
  /// Throws Error when a pattern matched no tap.
  void require_all_fired() const { taps_.require_all_fired(); }

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
  std::vector<std::int64_t> lengths_;  // of the step under way; empty when all have the ids' length
  std::vector<TensorMap> steps_;       // per step and tap the attention of the last position, f32 [R, H, S]
  std::vector<Node> nodes_;
};

}  // namespace heed::generate
