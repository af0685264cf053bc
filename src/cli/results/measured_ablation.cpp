#include "cli/results/measured_ablation.h"

#include <fmt/core.h>

#include "cli/input/input.h"
#include "cli/terminal/terminal.h"
#include "heed/inspect/ablation.h"

namespace heed::cli {
namespace {

TensorMap text_inputs(const AnalyzedModel& model, const std::string& text,
                      const std::optional<std::string>& target, const GivenInputs& given) {
  const bool both = dynamic_cast<const EncoderDecoderModel*>(model.model) != nullptr;
  return analyzed_text(model, text, both && !target && given.text_is_target ? text : target).inputs;
}

// The arguments, or the lines of a file or of stdin, without empty ones.
std::vector<std::string> given_lines(const GivenInputs& given, const AnalyzedModel& model, bool quiet) {
  std::vector<std::string> lines =
      !given.file.empty()
          ? read_lines(given.file, quiet)
          : read_texts(model.reads_files() ? file_arguments(given.texts) : given.texts, quiet);
  std::erase_if(lines, [](const std::string& line) { return line.empty(); });
  return lines;
}

}  // namespace

std::string GivenInputs::title(const AnalyzedModel& model, std::size_t count) const {
  return !prompts.empty()    ? prompts.string()
         : !file.empty()     ? file
         : texts.size() == 1 ? texts.front()
                             : fmt::format("{} {}s", count, model.reads());
}

void each_input(const GivenInputs& given, const AnalyzedModel& model, const Globals& globals,
                const std::function<void(const TensorMap&, const Prompt*)>& add) {
  if (!given.prompts.empty()) {
    for (const Prompt& prompt : read_prompts(given.prompts)) {
      TensorMap inputs;
      try {
        inputs = text_inputs(model, prompt.clean, prompt.target ? prompt.target : given.target, given);
      } catch (const Error& e) {
        throw Error(prompt.where + ": " + e.what());
      }
      add(inputs, &prompt);
    }
    return;
  }
  for (const std::string& line : given_lines(given, model, globals.quiet))
    add(model.reads_files() ? analyzed_file(model, line).inputs
                            : text_inputs(model, line, given.target, given),
        nullptr);
}

MeasuredInput measured_input(const MetricArguments& arguments, const AnalyzedModel& model,
                             const TensorMap& inputs, const Prompt* prompt) {
  MeasuredInput measured{inputs, prompt != nullptr ? metric_of(*prompt, arguments, model, MetricKind::loss)
                                                   : chosen_metric(arguments, model, MetricKind::loss)};
  if (!measured.metric.position && !model.reads_files())
    measured.metric.position = usual_position(model, inputs.at("input_ids").to_vector<std::int64_t>());
  if (measured.metric.kind == MetricKind::loss && !measured.metric.token) {
    if (predicts_masks(model))
      throw UsageError("--token: missing (a masked language model is measured by one token at the mask)");
    add_labels(model, measured.inputs);
  }
  return measured;
}

std::string MeasuredAblation::text(const Estimate& one) const {
  return has_errors ? fmt::format("{:.3f} ± {:.3f}", one.mean, one.error) : fmt::format("{:.3f}", one.mean);
}

void MeasuredAblation::write(JsonWriter& json, const std::string& name, const Estimate& one) const {
  json.field(name, one.mean);
  if (has_errors) json.field(name + "_error", one.error);
}

void MeasuredAblation::write_totals(JsonWriter& json, const AblationArguments& arguments) const {
  json.field("metric", name_of(metric.kind));
  write(json, "whole", whole);
  if (arguments.remove.empty()) return;
  write(json, "removed", removed);
  write(json, "removed_change", removed_change);
}

MeasuredAblation measure_ablation(std::span<const MeasuredInput> inputs, std::vector<Component> each,
                                  const AblationArguments& arguments, const AttentionKind& kind,
                                  const GivenInputs& given, const AnalyzedModel& model,
                                  const Globals& globals) {
  const LogitMetric& first = inputs.front().metric;
  for (const MeasuredInput& input : inputs) {
    const bool same_loss =
        first.kind != MetricKind::loss || input.metric.token.has_value() == first.token.has_value();
    if (input.metric.kind != first.kind || !same_loss)
      throw Error(given.prompts.string() +
                  ": expected A, and B, in every row or in none (or choose --metric)");
  }
  AblationOptions options = ablation_options(arguments, kind, globals);
  options.each = std::move(each);
  const std::vector<TensorMap> reference = reference_inputs(arguments, globals, [&](const std::string& line) {
    return model.reads_files() ? analyzed_file(model, line).inputs
                               : text_inputs(model, line, given.target, given);
  });
  options.reference = reference;
  Progress progress(globals.quiet);
  options.progress = [&](std::int64_t done, std::int64_t total) { progress.show(done, total, "ablations"); };
  const AblationResult result = measure_ablations(*model.model, inputs, options);
  progress.finish();
  std::vector<double> change = result.removed;
  for (std::size_t i = 0; i < change.size(); ++i) change[i] -= result.whole[i];
  MeasuredAblation found{.metric = first,
                         .has_errors = inputs.size() > 1,
                         .whole = estimate_of(result.whole, result.weights),
                         .removed = estimate_of(result.removed, result.weights),
                         .removed_change = estimate_of(change, result.weights)};
  for (std::size_t i = 0; i < options.each.size(); ++i) {
    found.each.push_back(estimate_of(result.each[i], result.weights));
    found.changes.push_back(estimate_of(result.effect(i), result.weights));
  }
  return found;
}

}  // namespace heed::cli
