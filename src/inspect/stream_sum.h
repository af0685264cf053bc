// The residual stream as a sum: what embeddings, heads and feed-forward networks add to what some layer
// reads, recorded in one forward pass. Norms of the stream act on each part with the deviation of the whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heed/inspect/stream_attribution.h"
#include "heed/nn/stack.h"

namespace heed::inspect {

/// A part in a table: "head 5.1", "ff 3", "attn bias 3", "token".
std::string part_label(const StreamPart& part);

/// Each element of `parts` [..., X], row-major, times the factor by which `after` [X] differs from `before`
/// [X] there: what norms and multipliers after an attention do to the contributions of its heads, as they do
/// it to their sum.
std::vector<double> scaled_as(const Tensor& parts, const Tensor& before, const Tensor& after);

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

/// How much a part adds to the stream at one position: the length of what it adds, over that of the stream
/// that its sublayer reads.
struct PartSize : StreamPart {
  double size = 0;
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

/// Records what a stack adds up before `point`, at `positions`. Other listeners of the pass may change heads,
/// and add the vectors `added` to the stream after layers, by the names of their taps.
class StreamRecorder {
 public:
  StreamRecorder(const Stack& stack, std::vector<NamedPosition> positions, StreamPoint point,
                 TensorMap added = {})
      : stack_(stack), positions_(std::move(positions)), point_(point), steering_(std::move(added)) {}
  /// For one forward pass, in which a position that does not exist throws Error.
  void listen(Taps& taps);
  /// After the pass.
  StreamSum sum() const;
  /// After the pass: heads, biases of attentions and other sublayers, at the first position.
  std::vector<PartSize> sizes() const;

 private:
  struct Added {
    Tensor contributions, out, added;  // [H, P, D] of an attention, [P, D], [P, D]
  };
  // Calls visit(point, step) for all steps before the point.
  template <class Visit>
  void each_step(Visit visit) const;
  // Of a value that begins at position `first`.
  Tensor at_positions(const Tensor& value, int axis, std::int64_t first = 0) const;
  void add_embeddings(StreamSum& sum) const;
  void add_sublayer(StreamSum& sum, std::int64_t layer, const std::string& name) const;
  void add_steering(StreamSum& sum, std::int64_t layer) const;

  const Stack& stack_;
  std::vector<NamedPosition> positions_;
  StreamPoint point_;
  TensorMap steering_;
  std::map<std::string, Tensor> embeddings_;  // `` is the whole; [P, D]
  std::map<std::string, Added> added_;        // by the name of the sublayer's taps
  std::map<std::string, Tensor> streams_;     // by their taps: before each step, and at the point, [P, D]
};

/// Throws Error for a model whose logits are not made of a residual stream.
ReadOut required_read_out(const Model& model, const char* where);
/// What each part of the stream after the last layer, at one position, adds to the logit of a token.
LogitAttribution logit_parts(StreamSum sum, const ReadOut& read_out, std::int64_t token);

/// What each part of one side of a score adds over all parts of the other.
struct ScoreSides {
  std::vector<double> query, key;
  double magnitude = 0;  ///< sum of the pairs' absolute values, and of the position bias
};
ScoreSides sides_of(const ScoreAttribution& score);

/// The indices of the `count` largest magnitudes, the largest first.
std::vector<std::size_t> largest(const std::vector<double>& values, std::size_t count);

}  // namespace heed::inspect
