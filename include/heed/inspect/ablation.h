// Ablation: what a metric loses when the output of heads or feed-forward networks is replaced by zeros, by
// its mean, or by that of another text. Threads: each function runs the model on its own; several may run at
// once within NoGradients.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/inspect/metric.h"
#include "heed/nn/tap.h"

namespace HEED_API heed {

/// A head, or (head -1) what a feed-forward network adds to the stream.
struct Component {
  std::string stack = "decoder", part = "self_attn";  ///< or `encoder`, `cross_attn`, `feed_forward`
  std::int64_t layer = 0, head = 0;
  bool operator==(const Component&) const = default;
};

/// All heads of one kind of attention, layer by layer; with `feed_forwards`, after those of a layer its
/// feed-forward network. Throws Error, as `where`, for a model without such an attention.
std::vector<Component> components_of(const Model& model, const MeasuredInput& input, const std::string& stack,
                                     const std::string& part, bool feed_forwards, const char* where);

/// What stands in the place of a component's output: of a head what it reads ([T, d], before the output
/// projection), of a feed-forward network what it adds to the stream ([T, D], after norms behind it).
enum class Replacement : std::uint8_t {
  zero,
  /// The mean over all positions of all reference inputs: one vector, at every position.
  mean,
  /// The output for another input, position by position. Of input i it is drawn, with the seed, from the
  /// reference inputs that have as many positions or more; where the reference are the inputs themselves,
  /// never input i.
  resample,
};

struct AblationOptions {
  Replacement replacement = Replacement::zero;
  std::span<const TensorMap> reference = {};  ///< of mean and resample; empty: the inputs themselves
  std::uint64_t seed = 0;
  std::vector<Component> removed = {};  ///< replaced in all runs, together
  std::vector<Component> each = {};     ///< replaced one at a time, beside the removed
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

/// Adds listeners that replace `options.removed` in a run of `inputs`, one row. Of mean and resample without
/// reference inputs, the reference is `inputs` itself, which resample refuses. Throws as measure_ablations().
void replace_components(Taps& taps, const Model& model, const TensorMap& inputs,
                        const AblationOptions& options);

/// Of ablate_heads() (heed/inspect/record.h).
struct HeadAblationOptions {
  std::vector<std::int64_t> heads = {};  ///< of each layer; empty: all
  /// What stands in the place of a head's output, and what is replaced in all passes; without `each`.
  /// `progress` is called before each pass with its number and the number of passes. Of mean and resample
  /// without reference inputs, as replace_components().
  AblationOptions ablation = {};
  const std::atomic<bool>* stop = nullptr;  ///< cancels once true: the call throws Canceled
};

/// The metric of each measured input. Their mean and its error: estimate_of(…, weights).
struct AblationResult {
  std::vector<double> weights;            ///< tokens of a loss over them; else 1
  std::vector<double> whole;              ///< of the model as it is
  std::vector<double> removed;            ///< without options.removed; `whole`, if there are none
  std::vector<std::vector<double>> each;  ///< [options.each, inputs]
  std::vector<double> effect(std::size_t component) const;  ///< each − removed
};

/// Inputs of equal shapes, and components of one layer, are rows of one run, which begins at that layer.
///  Throws Error where the metric cannot be measured, for a
/// component that the model does not have, without a reference input to draw, and without any input.
AblationResult measure_ablations(const Model& model, std::span<const MeasuredInput> inputs,
                                 const AblationOptions& options);

}  // namespace heed
