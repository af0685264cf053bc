// The residual stream as a sum: what embeddings, heads and feed-forward networks add to what some layer
// reads, recorded in one forward pass. Norms of the stream act on each part with the deviation of the whole.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heed/inspect/analysis.h"
#include "heed/nn/stack.h"

namespace heed::inspect {

/// A sum over parts at P positions.
struct StreamSum {
  std::vector<StreamPart> parts;
  Tensor values;  // f64 [parts, P, D]

  /// f64 [P, D]
  Tensor whole() const;
  /// `added` f64 [n, P, D] as further parts.
  void add(const std::vector<StreamPart>& names, const Tensor& added);
  /// The norm of the sum; its bias is a part of its own.
  void apply(const Norm& norm, const StreamPart& bias);
};

/// Where in a stack: what the first sublayer of a residual step reads, before its own norm; with `layer` the
/// number of layers, what the last one gives.
struct StreamPoint {
  std::int64_t layer = 0;
  std::size_t step = 0;
};

/// The point after the last layer.
StreamPoint end_of(const Stack& stack);
/// The tap of the stream at the point.
std::string tap_of(const Stack& stack, const StreamPoint& point);

/// A position, with what an error about it begins with.
struct NamedPosition {
  const char* what;
  std::int64_t position;
};

/// Records what a stack adds up before `point`, at `positions`.
class StreamRecorder {
 public:
  StreamRecorder(const Stack& stack, std::vector<NamedPosition> positions, StreamPoint point)
      : stack_(stack), positions_(std::move(positions)), point_(point) {}
  /// For one forward pass, in which a position that does not exist throws Error.
  void listen(Taps& taps);
  /// After the pass.
  StreamSum sum() const;

 private:
  struct Added {
    Tensor contributions, out, added;  // [H, P, D] of an attention, [P, D], [P, D]
  };
  // Calls visit(layer, step) for all steps before the point.
  template <class Visit>
  void each_step(Visit visit) const;
  Tensor at_positions(const Tensor& value, int axis) const;
  void add_embeddings(StreamSum& sum) const;
  void add_sublayer(StreamSum& sum, std::int64_t layer, const std::string& name) const;

  const Stack& stack_;
  std::vector<NamedPosition> positions_;
  StreamPoint point_;
  std::map<std::string, Tensor> embeddings_;  // `` is the whole; [P, D]
  std::map<std::string, Added> added_;        // by the name of the sublayer's taps
  Tensor stream_;                             // at the point, [P, D]
};

}  // namespace heed::inspect
