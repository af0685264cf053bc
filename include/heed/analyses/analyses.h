// The analyses of `heed lens`, `attribute`, `heads`, `ablate`, `patch`, `circuits`, `features` and `steer`:
// each takes a model and what it reads, and returns a report with values under names, tables and a figure.
// The mathematics is that of heed/inspect. Threads: as the functions there; no other may use the model where
// gradients are taken.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/analyses/analyzed.h"
#include "heed/export.h"
#include "heed/inspect/ablation.h"
#include "heed/inspect/attribution.h"
#include "heed/inspect/features.h"
#include "heed/inspect/steering_directions.h"
#include "heed/plot/report.h"

namespace HEED_API heed {

/// The prediction of each layer: the next token of a text (for a masked language model, the token at each
/// position), or the label of an image or a sound. Throws as logit_lens() and label_lens().
Report lens(const AnalyzedModel& model, const AnalyzedInput& input, std::int64_t top_k = 1);

/// What each head and feed-forward network adds to the logit of a token, or to the difference of two logits.
/// For several prompts: means with standard errors. Throws as attribute_logit(); OptionError without a token.
Report attribute_to_logit(const AnalyzedModel& model, std::span<const AnalyzedInput> inputs,
                          const MetricChoice& choice, const std::string& title);

/// The baseline that a token is compared with.
enum class InputBaseline : std::uint8_t {
  usual,  ///< zeros; for occlusion, the first of mask, pad and unknown token that exists
  zero,
  pad,
  mask
};
struct AttributeInputOptions {
  InputMethod method = InputMethod::gradient;
  InputBaseline baseline = InputBaseline::usual;
  std::optional<std::int64_t> steps = {};  ///< for integrated gradients
  bool all_labels = false;                 ///< for a classifier: one column per label
  AnalysisProgress progress = {};
};
/// What each token of a text adds to a metric. The default metric is the logit of the model's prediction.
/// Throws as attribute_input(); OptionError for what does not fit the model.
Report attribute_to_input(const AnalyzedModel& model, const AnalyzedInput& input, const MetricChoice& choice,
                          const AttributeInputOptions& options);

struct AttributeScoreOptions {
  LayerPart head = {};
  std::string kind = {};                   ///< as analyzed_kind()
  std::optional<std::int64_t> query = {};  ///< by default the last position
  std::optional<std::int64_t> key = {};    ///< by default the one with the largest weight
  std::int64_t top_k = 10;                 ///< pairs and parts to list
};
/// Why a head attends from a query to a key: what pairs of parts add to the score. For several prompts: means
/// with standard errors. Throws as attribute_score().
Report attribute_to_score(const AnalyzedModel& model, std::span<const AnalyzedInput> inputs,
                          const AttributeScoreOptions& options, const std::string& title);

struct HeadsReportOptions {
  std::string kind = {};  ///< as analyzed_kind()
  /// Tokens that count as separators; by default those of the tokenizer that begin, separate and end texts.
  std::vector<std::string> separators = {};
  std::string sort = {};  ///< the measure whose largest value comes first; by default layers, then heads
};
/// Measures of every head over the inputs. Throws as measure_heads(), and OptionError for a measure to sort
/// by that is not among those.
Report heads(const AnalyzedModel& model, std::span<const AnalyzedInput> inputs,
             const HeadsReportOptions& options, const std::string& title);
/// Random token ids, repeated once, as a test of induction heads. Throws OptionError for an encoder-decoder.
AnalyzedInput repeated_input(const AnalyzedModel& model, std::int64_t count, std::uint64_t seed);

struct AblateOptions {
  std::string kind = {};      ///< as analyzed_kind(); by default cross-attention, if the model has it
  bool each = true;           ///< each chosen component, one at a time
  bool feed_forward = false;  ///< feed-forward networks too
  std::vector<std::int64_t> layers = {}, heads = {};  ///< the chosen ones; empty: all
  std::string remove = {};                            ///< `5.1,6.0,3.ff`: ablated together, beside each
  Replacement replacement = Replacement::zero;
  std::vector<TensorMap> reference = {};  ///< for mean and resample; empty: the inputs themselves
  std::uint64_t seed = 0;
  AnalysisProgress progress = {};
};
/// What replaces an output: `zeros`, `its mean`, `that for another text`.
const char* text_of(Replacement replacement);
/// Parses a list of components such as `5.1,6.0,3.ff`. Heads are those of `kind`. Throws OptionError for any
/// other text.
std::vector<Component> components_named(const std::string& list, const AttentionKind& kind);
/// Metrics without heads and feed-forward networks, and how much they change. For several inputs: means with
/// standard errors. If no metric is chosen, all that the tokens allow are measured. Throws as
/// measure_ablations().
Report ablate(const AnalyzedModel& model, std::span<const AnalyzedInput> inputs, const MetricChoice& choice,
              const AblateOptions& options, const std::string& title);

/// Two inputs of the same shapes, whose activations are exchanged.
struct AnalyzedPair {
  AnalyzedInput clean, corrupted;
};
/// The two texts of each prompt. Throws Error naming the row.
std::vector<AnalyzedPair> prompt_pairs(const AnalyzedModel& model, std::span<const Prompt> prompts,
                                       const std::optional<std::string>& target = {});
AnalyzedPair text_pair(const AnalyzedModel& model, const std::string& clean, const std::string& corrupted,
                       const std::optional<std::string>& target = {});
AnalyzedPair file_pair(const AnalyzedModel& model, const std::string& clean, const std::string& corrupted);

/// How the effects of patches are found: with one pass for each, as an estimate from one gradient
/// (attribution patching), or both, to measure the error of the estimates.
enum class PatchMethod : std::uint8_t { passes, gradient, both };
struct PatchReportOptions {
  std::string kind = {};  ///< `encoder`, `decoder` or `cross`; by default where the inputs differ
  std::optional<std::string> site = {};  ///< `residual`, `attention`, `feed-forward` or `heads`
  std::string path = {};                 ///< instead of a site: `5.1:q`, `5.ff` or `logits`
  /// Whether the clean run is patched with values of the corrupted one. By default only with a path; else the
  /// corrupted run is patched.
  std::optional<bool> into_clean = {};
  PatchMethod method = PatchMethod::passes;
  AnalysisProgress progress = {};
};
/// The effect of one run's values in the other run. For several pairs: means with standard errors. Throws as
/// patch_activations(), attribute_patches() and patch_paths(); OptionError for what does not fit the model.
Report patch(const AnalyzedModel& model, std::span<const AnalyzedPair> pairs, const MetricChoice& choice,
             const PatchReportOptions& options, const std::string& title);

struct CircuitsReportOptions {
  std::string kind = {};  ///< as analyzed_kind(); self-attention
  std::optional<LayerPart> head =
      {};  ///< only this head: the tokens that its OV circuit reads and writes, and its compositions
  bool compositions = true;
  bool fold_final_norm = true;  ///< as CircuitOptions
  std::int64_t top = 20;        ///< compositions
  std::int64_t directions = 6;  ///< of one head
  std::int64_t tokens = 8;      ///< of a direction
  AnalysisProgress progress = {};
};
/// What the weights of heads allow them to do. Throws as weight_circuits().
Report circuits(const AnalyzedModel& model, const CircuitsReportOptions& options);

struct FeaturesOptions {
  FeatureSites sites = {};  ///< from feature_sites(), or others
  std::int64_t top_k = 5;   ///< features of each token, tokens of a feature, predictions
  AnalysisProgress progress = {};
};
/// The strongest features of each token.
Report features_of_tokens(const AnalyzedModel& model, const AnalyzedInput& input, const SparseCoder& coder,
                          const FeaturesOptions& options);
/// The tokens at which a feature is strongest, and the tokens whose logits it raises.
Report feature_in_texts(const AnalyzedModel& model, std::span<const std::string> texts,
                        const std::optional<std::string>& target, const SparseCoder& coder,
                        std::int64_t feature, const FeaturesOptions& options, const std::string& title);
/// The model's predictions when features are multiplied by these factors (0 removes a feature).
Report scaled_features(const AnalyzedModel& model, const AnalyzedInput& input, const SparseCoder& coder,
                       const std::map<std::int64_t, double>& factors, const FeaturesOptions& options);

/// The length of each vector of steering_directions(), and how well it separates the texts.
Report steering_report(const AnalyzedModel& model, std::span<const SteeringDirection> directions,
                       const std::string& title);

}  // namespace heed
