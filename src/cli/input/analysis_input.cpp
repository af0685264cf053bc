#include "cli/input/analysis_input.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "cli/input/input.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/results/written_model.h"
#include "cli/terminal/terminal.h"
#include "core/strings.h"
#include "heed/files/file.h"
#include "heed/models/kind.h"

namespace heed::cli {
namespace {

constexpr double kScreenInch = 96, kPrintInch = 300, kMostWidth = 20000;

bool is_figure(const std::filesystem::path& file) {
  return file.extension() == ".svg" || file.extension() == ".pdf" || file.extension() == ".png";
}

TableStyle figure_style(const ReportOutput& output) {
  if (output.width.empty()) return {};
  double number = 0;
  const char* end = output.width.data() + output.width.size();
  const auto read = std::from_chars(output.width.data(), end, number);
  const std::string unit(read.ptr, end);
  const bool print = unit == "mm";
  const double width = print ? number * kScreenInch / 25.4 : number;
  if (read.ec != std::errc() || (!print && !unit.empty() && unit != "px") ||
      !(width >= 1 && width <= kMostWidth))
    throw UsageError("--width: expected a width of 1 to 20000 pixels, such as 85mm or 640, got " +
                     output.width);
  return {.width = width, .resolution = print ? kPrintInch / kScreenInch : 1};
}

void add_prompts_and_target(CLI::App& command, GivenInputs& given, const char* prompts_help,
                            const char* target_help) {
  OptionGroup input(command, "Input");
  if (prompts_help != nullptr) input.value("--prompts", given.prompts, "FILE.jsonl|.tsv|.csv", prompts_help);
  input.value("--target", given.target, "TEXT", target_help);
}

std::optional<std::string> valid_target(const std::optional<std::string>& target, const Globals& globals) {
  return target ? std::optional(valid_text(*target, "--target", globals.quiet)) : std::nullopt;
}

// The target of a text, or the text itself, where an encoder-decoder has none.
std::optional<std::string> target_for(const GivenInputs& given, const AnalyzedModel& model,
                                      const std::string& text, const Globals& globals) {
  if (given.target || as<EncoderDecoderModel>(*model.model) == nullptr)
    return valid_target(given.target, globals);
  return text;
}

// The arguments, or the lines of a file or of stdin, without empty ones.
std::vector<std::string> lines_of(const GivenInputs& given, const AnalyzedModel& model, bool quiet) {
  std::vector<std::string> lines =
      !given.lines.empty()
          ? read_lines(given.lines, quiet)
          : read_texts(model.reads_files() ? file_arguments(given.texts) : text_arguments(given.texts, quiet),
                       quiet);
  std::erase_if(lines, [](const std::string& line) { return line.empty(); });
  return lines;
}

}  // namespace

AnalyzedModel load_analyzed(const ModelChoice& choice, const Globals& globals) {
  const LoadedModel opened = open_model(choice, globals, {}, true);
  warn_of_settings(opened, globals);
  return {opened, title_of(choice)};
}

void GivenInputs::add_one(CLI::App& command, const char* text_help, const char* prompts_help,
                          ModelChoice& model) {
  CLI::Option* given = command.add_option("text", text, text_help);
  if (prompts_help == nullptr) given->required();
  add_prompts_and_target(command, *this, prompts_help, "Target text, for the decoder of an encoder-decoder");
  add_model_option(command, model)->required();
}

void GivenInputs::add_many(CLI::App& command, const char* prompts_help, ModelChoice& model) {
  command.add_option(
      "texts", texts,
      "Texts, or files for a model of images or sounds, - for one on stdin; without any, the lines of stdin");
  OptionGroup(command, "Input")
      .value("--texts", lines, "FILE", "File with a text, or the name of a file, in each line");
  add_prompts_and_target(command, *this, prompts_help,
                         "Target text, for the decoder of an encoder-decoder (default: the text itself)");
  OptionGroup(command, "Input")
      .count("--repeat", repeat, 2,
             "Instead of texts: N random tokens, then the same again. Induction heads, which attend to what "
             "followed an earlier occurrence of the token, stand out there");
  add_model_option(command, model)->required();
}

void GivenInputs::check_one(const char* where) const {
  if (text.has_value() != prompts.empty())
    throw UsageError(std::string(where) + ": expected a text, or --prompts FILE");
}

void GivenInputs::check_many() const {
  if (!texts.empty() + !lines.empty() + !prompts.empty() + repeat.has_value() < 2) return;
  throw UsageError(fmt::format("{0}: expected texts or {0}{1}, got both",
                               repeat             ? "--repeat"
                               : !prompts.empty() ? "--prompts"
                                                  : "--texts",
                               repeat ? "" : " FILE"));
}

std::vector<AnalyzedInput> GivenInputs::read_one(const AnalyzedModel& model, const Globals& globals,
                                                 const char* where) const {
  model.refuse_for_files("target", target.has_value());
  model.refuse_for_files("prompts", !prompts.empty());
  if (model.reads_files()) return {file_input(model, file_arguments({*text}).front())};
  const std::optional<std::string> valid = valid_target(target, globals);
  if (!prompts.empty()) return prompt_inputs(model, read_prompts(prompts), valid);
  const std::string given = text_arguments({*text}, globals.quiet).front();
  return {text_input(model, valid_text(given, where, globals.quiet), valid)};
}

std::vector<AnalyzedInput> GivenInputs::read_many(const AnalyzedModel& model, const Globals& globals) const {
  model.refuse_for_files("target", target.has_value());
  model.refuse_for_files("prompts", !prompts.empty());
  model.refuse_for_files("repeat", repeat.has_value());
  if (repeat) return {repeated_input(model, *repeat, globals.seed.value_or(0))};
  if (!prompts.empty()) {
    std::vector<Prompt> rows = read_prompts(prompts);
    for (Prompt& row : rows) {
      if (!row.target) row.target = target_for(*this, model, row.clean, globals);
    }
    return prompt_inputs(model, rows);
  }
  std::vector<AnalyzedInput> inputs;
  for (const std::string& line : lines_of(*this, model, globals.quiet))
    inputs.push_back(input_of(model, line, globals));
  return inputs;
}

AnalyzedInput GivenInputs::input_of(const AnalyzedModel& model, const std::string& line,
                                    const Globals& globals) const {
  return model.reads_files() ? file_input(model, line)
                             : text_input(model, line, target_for(*this, model, line, globals));
}

std::string GivenInputs::title(const AnalyzedModel& model, const std::vector<AnalyzedInput>& inputs) const {
  return !prompts.empty()     ? prompts.string()
         : !lines.empty()     ? lines
         : texts.size() == 1  ? texts.front()
         : inputs.size() == 1 ? inputs.front().title
                              : fmt::format("{} {}s", inputs.size(), model.reads());
}

void add_token_options(CLI::App& command, TokenChoice& choice, const std::string& what,
                       const std::string& group) {
  OptionGroup options(command, group);
  options.value("--token", choice.token, "TOKEN", what + ": a token; of a classifier, a label");
  options.value("--id", choice.id, "N", "The same by its id in the vocabulary, or the number of a label");
}

void add_other_options(CLI::App& command, MetricChoice& choice, const std::string& group) {
  OptionGroup options(command, group);
  options.value("--other", choice.other, "TOKEN",
                "The token that --token is compared with, given in the same way");
  options.count("--position", choice.position, 0,
                "The position that predicts --token, from 0 (default: the last; of a masked language model, "
                "that of the first mask)");
}

void add_metric_options(CLI::App& command, MetricChoice& choice, const std::string& usual) {
  const std::string help =
      "What is measured: the loss, the logit or probability of --token, the difference of the logits of "
      "--token and --other, or the KL divergence from the unchanged run (default: " +
      usual + ")";
  const auto choose = [&choice](const std::vector<std::string>& given) {
    const auto& names = metric_names();
    const auto found = std::find(names.begin(), names.end(), given.front());
    choice.kind = static_cast<MetricKind>(found - names.begin());
    return true;
  };
  accept_words(command.add_option("--metric", choose, help), metric_names())->group("Metric");
  add_token_options(command, choice.token, "What --metric is of", "Metric");
  add_other_options(command, choice, "Metric");
}

void add_kind_option(CLI::App& command, std::string& kind, const char* form, const char* which) {
  OptionGroup(command, "Output").value("--kind", kind, form, which);
}

void AblationArguments::add_to(CLI::App& command, const char* remove_help) {
  OptionGroup options(command, "Ablation");
  options.value("--remove", remove, "L.H,L.ff,...", remove_help);
  const auto choose = [this](const std::vector<std::string>& given) {
    replacement = given.front() == "zero"   ? Replacement::zero
                  : given.front() == "mean" ? Replacement::mean
                                            : Replacement::resample;
    return true;
  };
  accept_words(command.add_option("--ablation", choose,
                                  "What stands in the place of an output: zeros, its mean over all positions "
                                  "of the --reference texts, or its values for another of these, drawn with "
                                  "--seed (default: zero)"),
               {"zero", "mean", "resample"})
      ->group("Ablation");
  options.value("--reference", reference, "FILE",
                "File with a text, or the name of a file, in each line (default: the given texts)");
}

void AblationArguments::check() const {
  if (!reference.empty() && replacement.value_or(Replacement::zero) == Replacement::zero)
    throw UsageError("--reference: needs --ablation mean or resample");
}

std::vector<TensorMap> AblationArguments::reference_inputs(
    const Globals& globals, const std::function<TensorMap(const std::string&)>& read) const {
  std::vector<TensorMap> inputs;
  if (reference.empty()) return inputs;
  for (const std::string& line : read_lines(reference, globals.quiet)) {
    if (!line.empty()) inputs.push_back(read(line));
  }
  if (inputs.empty()) throw Error(reference + ": expected at least one text, got none");
  return inputs;
}

void ReportOutput::add_to(CLI::App& command, const char* description) {
  OptionGroup options(command, "Output");
  options.value("--output,-o", file, "FILE", description);
  CLI::Option* given = options.value("--title", title, "TEXT", "Title of the figure");
  options.flag("--no-title", no_title, "Leave out the title of the figure, and what is under it")
      ->excludes(given);
  options.value("--width", width, "N|Nmm",
                "Width of the figure: 85mm (a column; PNG has 300 pixels to the inch), or 640 pixels, 96 to "
                "the inch (default: as wide as the table)");
}

void ReportOutput::check(const std::vector<std::string>& endings) const {
  if (!file.empty() && std::find(endings.begin(), endings.end(), file.extension()) == endings.end())
    throw UsageError("--output: expected a file ending in " + alternatives(endings) + ", got " +
                     file.string());
  const char* option = title ? "--title" : no_title ? "--no-title" : !width.empty() ? "--width" : nullptr;
  if (option != nullptr && !is_figure(file))
    throw UsageError(std::string(option) + ": expected with --output FILE.svg, FILE.pdf or FILE.png");
  figure_style(*this);
}

void ReportOutput::check() const { check({".svg", ".pdf", ".png", ".csv", ".npz"}); }

void show_report(const AnalyzedModel& model, const ReportOutput& output, const Globals& globals,
                 const std::function<Report(const AnalysisProgress& progress)>& analysis) {
  Progress bar(globals.quiet);
  Report report = analysis([&](std::int64_t done, std::int64_t total, const char* what) {
    stop_if_asked();
    bar.show(done, total, what);
  });
  bar.finish();
  warn_of_non_finite(*model.model, report.finite, globals);
  for (const std::string& warning : report.warnings) {
    if (!globals.quiet) warn(warning);
  }
  if (!output.file.empty()) {
    ReportTable& figure = report.shown();
    if (output.title) figure.title = *output.title;
    if (output.no_title) figure.title = figure.subtitle = "";
    write_file(output.file, report_file(report, output.file.extension().string(), figure_style(output)));
    if (!globals.quiet) print_stderr("wrote " + output.file.string());
  }
  if (globals.json) {
    print_stdout("{}\n", report_json(report));
  } else if (output.file.empty()) {
    print_styled(report_text(report, terminal_style(0)));
  }
  flush_results();
}

}  // namespace heed::cli
