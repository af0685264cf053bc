// Ablation: the change of a metric when the output of heads or feed-forward networks is replaced by zeros, by
// its mean, or by the output for another text. Threads: each function runs the model on its own; several may
// run at once within NoGradients.
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

/// A head, or (head -1) the output of a feed-forward network.
struct Component {
  std::string stack = "decoder", part = "self_attn";  ///< or `encoder`, `cross_attn`, `feed_forward`
  std::int64_t layer = 0, head = 0;
  bool operator==(const Component&) const = default;
};

/// All heads of one kind of attention, layer by layer. With `feed_forwards`, the feed-forward network of a
/// layer follows its heads. Throws Error, as `where`, for a model without this kind of attention.
std::vector<Component> components_of(const Model& model, const MeasuredInput& input, const std::string& stack,
                                     const std::string& part, bool feed_forwards, const char* where);

/// The replacement of a component's output. The output of a head is [T, d], before the output projection;
/// that of a feed-forward network is [T, D], as added to the residual stream, after norms.
enum class Replacement : std::uint8_t {
  zero,
  /// The mean over all positions of all reference inputs: one vector, at every position.
  mean,
  /// The output for another input, position by position. The other input is drawn, with the seed, from the
  /// reference inputs with at least as many positions. If the reference is the inputs themselves, input i is
  /// never drawn for itself.
  resample,
};

struct AblationOptions {
  Replacement replacement = Replacement::zero;
  std::span<const TensorMap> reference = {};  ///< for mean and resample; empty: the inputs themselves
  std::uint64_t seed = 0;
  std::vector<Component> removed = {};  ///< replaced in all runs, together
  std::vector<Component> each = {};     ///< replaced one at a time, in addition to `removed`
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

/// Adds listeners that replace `options.removed` in a run of `inputs`, one row. Without reference inputs, the
/// mean is that of `inputs` itself, and resample is an Error. Throws as measure_ablations().
void replace_components(Taps& taps, const Model& model, const TensorMap& inputs,
                        const AblationOptions& options);

/// Options of ablate_heads() (heed/inspect/record.h).
struct HeadAblationOptions {
  std::vector<std::int64_t> heads = {};  ///< of each layer; empty: all
  /// The replacement of a head's output, and what is replaced in all passes; `each` is not used. `progress`
  /// is called before each pass with its number and the number of passes. Without reference inputs, mean and
  /// resample work as in replace_components().
  AblationOptions ablation = {};
  const std::atomic<bool>* stop = nullptr;  ///< cancels once true: the call throws Canceled
};

/// The metric of each measured input. estimate_of(…, weights) gives the mean and its standard error.
struct AblationResult {
  std::vector<double> weights;            ///< tokens of a loss over them; else 1
  std::vector<double> whole;              ///< of the model as it is
  std::vector<double> removed;            ///< without options.removed; `whole`, if there are none
  std::vector<std::vector<double>> each;  ///< [options.each, inputs]
  std::vector<double> effect(std::size_t component) const;  ///< each − removed
};

/// Measures the metric with each component replaced. Inputs of equal shapes and components of one layer are
/// rows of one run, which begins at that layer. Throws Error if the metric cannot be measured, the model
/// lacks a component, no reference input can be drawn, or there are no inputs.
AblationResult measure_ablations(const Model& model, std::span<const MeasuredInput> inputs,
                                 const AblationOptions& options);

}  // namespace heed
