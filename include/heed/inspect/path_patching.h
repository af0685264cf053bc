// Path patching: what one part of a model tells another directly.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "heed/export.h"
#include "heed/inspect/ablation.h"
#include "heed/inspect/analysis.h"

namespace HEED_API heed {

/// What reads the sender's output: the queries, keys or values of a head; a feed-forward network; or the
/// map to the logits.
enum class PathInput : std::uint8_t { query, key, value, feed_forward, logits };

struct PathOptions {
  /// A head, or (head -1) a feed-forward network; of the logits, the stack whose output they are made of.
  Component receiver = {};
  PathInput input = PathInput::query;
  /// Of `kl`, against the base run. Others have a token.
  LogitMetric metric = {.kind = MetricKind::logit_difference};
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

/// The metric of the base run where one sender has its value of the donor run, as far as the receiver reads
/// it.
struct PathResult {
  double base = 0, donor = 0;  ///< the metric of the two runs
  /// All that adds to the stream before the receiver: the embeddings (`embed`), heads, feed-forward networks,
  /// and attentions that are not made of heads.
  std::vector<StreamPart> senders;
  std::vector<double> patched;
  /// (patched - base) / (donor - base): 0 changes nothing, 1 is as much as all differences of the donor do.
  double effect(std::size_t sender) const;
};

/// Path patching (Wang et al. 2023, "Interpretability in the wild"; Goldowsky-Dill et al. 2023, "Localizing
/// model behavior with path patching"), along direct paths: the base run, in which the input of the receiver
/// is computed again from a residual stream where the sender adds what it adds in the donor run, and every
/// other head and feed-forward network what it adds in the base run. Norms of the stream are computed of the
/// changed stream. What the receiver then gives, all layers behind it read. The keys and values of a head
/// that shares them with others (grouped queries) change for this head alone. Of the keys and values of
/// cross-attention, the senders are those of the encoder.
///
/// A pass of each run, and one from the receiver's layer on for each sender, many at once. Throws Error
/// unless both inputs have the same shapes, and for a receiver that the model does not have, or a metric that
/// cannot be measured or is the same of both runs.
PathResult patch_paths(const Model& model, const TensorMap& base, const TensorMap& donor,
                       const PathOptions& options);

}  // namespace heed
