// What heed heads and heed attend measure with and without components: texts, files or prompts with the
// metric of each, and its means over them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/input/prompts.h"
#include "cli/options/ablation_options.h"
#include "cli/options/metric_options.h"
#include "heed/io/json.h"

namespace heed::cli {

/// Texts or files of images or sounds, as arguments or the lines of a file or of stdin; or rows of --prompts.
struct GivenInputs {
  std::vector<std::string> texts = {};
  std::string file = {};
  std::filesystem::path prompts = {};
  std::optional<std::string> target = {};  ///< of an encoder-decoder
  bool text_is_target = false;             ///< where there is no other

  /// What a figure of them is of: a text, or `3 texts`.
  std::string title(const AnalyzedModel& model, std::size_t count) const;
};

/// Calls `add` with each input, and its row of --prompts or null. Throws as read_prompts() and
/// analyzed_text().
void each_input(const GivenInputs& given, const AnalyzedModel& model, const Globals& globals,
                const std::function<void(const TensorMap&, const Prompt*)>& add);

/// The input with the metric of the options, or of its row. Throws as metric_of() and chosen_metric().
MeasuredInput measured_input(const MetricArguments& arguments, const AnalyzedModel& model,
                             const TensorMap& inputs, const Prompt* prompt);

/// Means over the inputs. A change is that of the same inputs, so its error is not that of two means.
struct MeasuredAblation {
  LogitMetric metric = {};            ///< of the first input
  bool has_errors = false;            ///< of several inputs
  Estimate whole = {}, removed = {};  ///< of the model as it is, and without those of --remove
  Estimate removed_change = {};       ///< removed - whole
  std::vector<Estimate> each = {},
                        changes = {};  ///< without each component, and by how much less those removed

  /// "1.234", or "1.234 ± 0.056".
  std::string text(const Estimate& one) const;
  /// Writes the field `name` and, of several inputs, `name_error`.
  void write(JsonWriter& json, const std::string& name, const Estimate& one) const;
  /// Writes `metric`, `whole` and, with --remove, `removed` and `removed_change`.
  void write_totals(JsonWriter& json, const AblationArguments& arguments) const;
};

/// Measures the inputs without each component of `each`, beside those of --remove, whose heads are of `kind`.
MeasuredAblation measure_ablation(std::span<const MeasuredInput> inputs, std::vector<Component> each,
                                  const AblationArguments& arguments, const AttentionKind& kind,
                                  const GivenInputs& given, const AnalyzedModel& model,
                                  const Globals& globals);

}  // namespace heed::cli
