// Path patching: the direct effect of one part of a model on another.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "heed/export.h"
#include "heed/inspect/ablation.h"
#include "heed/inspect/stream_attribution.h"

namespace HEED_API heed {

/// The input of the receiver: the queries, keys or values of a head; a feed-forward network; or the map to
/// the logits.
enum class PathInput : std::uint8_t { query, key, value, feed_forward, logits };

struct PathOptions {
  /// A head, or (head -1) a feed-forward network; for the logits, the stack that they are computed from.
  Component receiver = {};
  PathInput input = PathInput::query;
  /// `kl` is against the base run; all other metrics need a token.
  LogitMetric metric = {.kind = MetricKind::logit_difference};
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

/// The metric of the base run when the receiver reads the donor run's value of one sender.
struct PathResult {
  double base = 0, donor = 0;  ///< the metric of the two runs
  /// All parts that add to the residual stream before the receiver: the embeddings (`embed`), heads,
  /// feed-forward networks, and attentions without separate heads.
  std::vector<StreamPart> senders;
  std::vector<double> patched;
  /// (patched - base) / (donor - base): 0 is no change, 1 is the full change to the donor's metric.
  double effect(std::size_t sender) const;
};

/// Path patching (Wang et al. 2023, "Interpretability in the wild"; Goldowsky-Dill et al. 2023, "Localizing
/// model behavior with path patching"), along direct paths. In the base run, the input of the receiver is
/// recomputed from a residual stream with the sender's output of the donor run; every other head and
/// feed-forward network keeps its output of the base run. Norms are computed from the changed stream. All
/// later layers read the receiver's new output. If several heads share keys and values (grouped queries),
/// they change for this head only. For the keys and values of cross-attention, the senders are in the
/// encoder.
///
/// Takes one pass for each run, and one from the receiver's layer on for each sender, many at once. Throws
/// Error unless both inputs have the same shapes, and if the model lacks the receiver, or if the metric
/// cannot be measured or is equal in both runs.
PathResult patch_paths(const Model& model, const TensorMap& base, const TensorMap& donor,
                       const PathOptions& options);

}  // namespace heed
