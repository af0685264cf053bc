// Activation patching, and its estimate by gradients. Inputs are those of Model::forward(), one row. Threads:
// several may run a model at once within NoGradients, where nothing else is said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/inspect/metric.h"
#include "heed/models/model.h"

namespace HEED_API heed {

/// What is patched: the residual stream before a layer, what attention or feed-forward adds to it, at one
/// position; or one head's output, at all positions.
enum class PatchSite : std::uint8_t { residual, attention, feed_forward, heads };

struct PatchOptions {
  PatchSite site = PatchSite::residual;
  /// The stack whose layers are patched, and which of their attentions: `encoder`, `cross_attn`.
  std::string stack = "decoder", part = "self_attn";
  /// Of `kl`, against the clean run. Others have a token.
  LogitMetric metric = {.kind = MetricKind::logit_difference};
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

/// Activation patching (Meng et al. 2022; Wang et al. 2023): the corrupted run, with one value of the clean
/// run in its place. Exchange the two inputs for the other direction.
struct PatchResult {
  double clean = 0, corrupted = 0;   ///< the metric of the two runs
  std::vector<std::int64_t> layers;  ///< their numbers: all that have such a value
  /// [layers, positions or heads]: the metric of the patched run.
  std::vector<std::vector<double>> patched;
  /// (patched - corrupted) / (clean - corrupted): 0 changes nothing, 1 restores the clean run.
  double effect(std::size_t row, std::size_t column) const;
};

/// Throws Error unless both inputs have the same shapes, and for a metric that cannot be measured, or is the
/// same of both runs.
PatchResult patch_activations(const Model& model, const TensorMap& clean, const TensorMap& corrupted,
                              const PatchOptions& options);

/// Attribution patching (Nanda 2023): what patch_activations() would find, if the metric m were linear in the
/// value x, for all values at once. With the gradient of the corrupted run,
///
///   patched - corrupted  ~  sum (x_clean - x_corrupted) * dm / dx
///
/// over the numbers of the position or head. Two passes and one backward. Threads: no other may use the
/// model.
PatchResult attribute_patches(const Model& model, const TensorMap& clean, const TensorMap& corrupted,
                              const PatchOptions& options);

/// How far estimates of effects are from those found by patching.
struct PatchAgreement {
  double correlation = 0;  ///< Pearson's; 0 where one of both is constant
  double largest = 0;      ///< the largest difference of two effects
};
PatchAgreement agreement_of(const PatchResult& estimated, const PatchResult& patched);

}  // namespace heed
