// heed evaluate --data: scores of a model that labels texts or words, or answers questions.
#include "cli/results/evaluate_labels.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <sstream>

#include "cli/input/models.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/terminal.h"
#include "data/labeled_data.h"
#include "data/lines.h"
#include "heed/image/processor.h"
#include "heed/io/json.h"
#include "heed/models/adapter.h"
#include "heed/models/kind.h"
#include "heed/score/labels.h"
#include "heed/tasks/classify.h"
#include "heed/text/tokenizer.h"
#include "heed/train/recipe.h"
#include "heed/train/train.h"
#include "train/recipe/recipe_fields.h"

namespace heed::cli {
namespace {

// A label's number, given its name or the number itself.
std::optional<std::size_t> label_number(const std::string& text, const std::vector<std::string>& names) {
  const auto named = std::find(names.begin(), names.end(), text);
  if (named != names.end()) return static_cast<std::size_t>(named - names.begin());
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != text.npos)
    return std::nullopt;
  const auto number = static_cast<std::size_t>(std::stoul(text));
  return number < names.size() ? std::optional(number) : std::nullopt;
}

// "label,text": the columns of --tsv in their order; - is for one that is not read.
void set_columns(DataOptions& data, const std::string& names) {
  std::int64_t column = 0, other = 0;
  data.text_column = data.label_column = data.pair_column = 0;
  bool good = true;
  std::istringstream stream(names);
  for (std::string name; std::getline(stream, name, ',');) {
    ++column;
    std::int64_t& place = name == "text"    ? data.text_column
                          : name == "label" ? data.label_column
                          : name == "pair"  ? data.pair_column
                                            : other;
    good = good && (&place != &other ? place == 0 : name == "-");
    place = column;
  }
  if (!good || data.text_column == 0 || data.label_column == 0) {
    throw UsageError(
        "--columns: expected text, label and perhaps pair, - for other columns, separated by commas, got " +
        names);
  }
}

// The columns of --tsv: the label is last, unless only the first column has labels throughout. A first row
// may be a header.
void find_columns(DataOptions& data, const std::string& file, const std::vector<std::string>& names,
                  bool quiet) {
  data::Table table(file, "tsv", false);
  struct Column {
    bool header = true, labels = true;  // the first row has no label; the others have one each
  } first, last;
  std::size_t count = 0, rows = 0;
  for (std::vector<std::string> fields; table.next(fields); ++rows) {
    if (fields.size() < 2 || fields.size() > 3) {
      throw Error(fmt::format("{}: expected one or two texts and a label, separated by tabs, got {} column{}",
                              table.where(), fields.size(), fields.size() == 1 ? "" : "s"));
    }
    count = fields.size();
    for (Column* column : {&first, &last}) {
      const bool label = label_number(column == &first ? fields.front() : fields.back(), names).has_value();
      (rows == 0 ? column->header : column->labels) = rows == 0 ? !label : column->labels && label;
    }
  }
  const auto has_labels = [&](const Column& c) { return c.labels && !(c.header && rows < 2); };
  const bool label_first = !has_labels(last) && has_labels(first);
  if (label_first && !quiet) {
    print_stderr(file + ": labels are in the first column, texts in the " +
                 (count == 3 ? "others" : "second"));
  }
  set_columns(data, label_first ? "label,text,pair" : count == 3 ? "text,pair,label" : "text,label");
  if (label_first && count == 2) data.pair_column = 0;
}

// Whether the first row of --tsv has no label.
bool begins_with_header(const DataOptions& data, const std::string& file,
                        const std::vector<std::string>& names) {
  std::vector<std::string> fields;
  const auto column = static_cast<std::size_t>(data.label_column - 1);
  return data::Table(file, "tsv", false).next(fields) && column < fields.size() &&
         !label_number(fields[column], names);
}

void override_data(Recipe& recipe, const LabelEvaluation& arguments) {
  for (const std::string& assignment : arguments.overrides) {
    if (!assignment.starts_with("data.") && !assignment.starts_with("task."))
      throw UsageError("--set: expected keys of data or task, got " + assignment);
    set_in_recipe(recipe, assignment);
  }
  recipe.data.test = arguments.data;
  recipe.train.batch_tokens = arguments.batch_tokens;
}

// How the data are read, for the task that the model's head is for.
Recipe recipe_of(const LabelEvaluation& arguments, const EncoderModel& model, bool quiet) {
  Recipe recipe;
  switch (model.head()) {
    case EncoderHead::token: recipe.task.kind = "tagging"; break;
    case EncoderHead::span: recipe.task.kind = "answers"; break;
    default: recipe.task.kind = model.input().is_image() ? "image-classification" : "classification";
  }
  if (model.head() == EncoderHead::sequence && label_function(model) != LabelFunction::softmax)
    recipe.task.problem = model.labels().size() > 1 ? "multi-label" : "regression";
  if (arguments.is_tsv) {
    recipe.data.format = "tsv";
    if (arguments.columns.empty()) find_columns(recipe.data, arguments.data, model.labels(), quiet);
    if (!arguments.columns.empty()) set_columns(recipe.data, arguments.columns);
    recipe.data.header = begins_with_header(recipe.data, arguments.data, model.labels());
  }
  override_data(recipe, arguments);
  return recipe;
}

// How recordings and their texts are read.
Recipe speech_recipe(const LabelEvaluation& arguments) {
  Recipe recipe;
  recipe.task.kind = "transcription";
  if (arguments.is_tsv) {
    if (!arguments.columns.empty())
      throw UsageError(
          "--columns: expected none for recordings (--set data.source_column and data.target_column "
          "choose them), got " +
          arguments.columns);
    recipe.data.format = "tsv";
  }
  override_data(recipe, arguments);
  return with_defaults(recipe);
}

// Texts, or images by their paths.
struct LabeledInputs {
  std::vector<TextPair> texts;
  std::vector<std::string> files;
  std::vector<std::size_t> labels;
};

LabeledInputs read_inputs(const Recipe& recipe, const std::vector<std::string>& names, const char* hint,
                          bool quiet) {
  const bool images = recipe.task.kind == "image-classification";
  const LabeledTexts texts = images ? read_labeled_images(recipe.data.test, recipe.data, {})
                                    : read_labeled(recipe.data.test, recipe.data, false, {});
  if (texts.control_bytes > 0 && !quiet)
    warn(recipe.data.test.string() + ": " + data::control_bytes_text(texts.control_bytes));
  LabeledInputs read;
  for (std::int64_t i = 0; i < texts.size(); ++i) {
    const LabeledText text = texts[i];
    const std::optional<std::size_t> label = label_number(text.labels.front(), names);
    if (!label) {
      throw Error(fmt::format("{}: expected one of the model's labels, got \"{}\" ({})", texts.where(text),
                              text.labels.front(), hint));
    }
    if (images)
      read.files.push_back(text.text);
    else
      read.texts.push_back({text.text, text.pair.empty() ? std::nullopt : std::optional(text.pair)});
    read.labels.push_back(*label);
  }
  return read;
}

// By the task's own evaluation.
void print_scores(const Recipe& recipe, const ModelChoice& choice, const Globals& globals) {
  const std::filesystem::path directory = path_of_model(choice.name);
  if (!choice.adapters.empty() || is_adapter(directory))
    throw Error("evaluate --data: expected a whole model, got an adapter (heed convert makes one of both)");
  const auto started = std::chrono::steady_clock::now();
  TrainOptions options;
  options.init = directory;
  const Evaluation evaluation = evaluate(recipe, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  if (globals.json) {
    JsonWriter json;
    json.begin_object().field("loss", evaluation.loss);
    for (const Metric& metric : evaluation.metrics) json.field(metric.name, metric.value);
    print_stdout("{}\n", json.field("seconds", seconds).end_object().text());
    return;
  }
  std::string text = fmt::format("loss = {:.4f}", evaluation.loss);
  for (const Metric& metric : evaluation.metrics)
    text += fmt::format("  {} = {:.2f}", metric.name, metric.value);
  print_stdout("{}\n", text);
}

void print_json(const LabelReport& report, const std::vector<std::string>& names, std::size_t lines,
                double seconds) {
  JsonWriter json;
  json.begin_object()
      .field("lines", lines)
      .field("accuracy", report.accuracy)
      .field("macro_f1", report.macro_f1)
      .field("weighted_f1", report.weighted_f1)
      .key("labels")
      .begin_array();
  for (std::size_t i = 0; i < names.size(); ++i) {
    json.begin_object()
        .field("label", names[i])
        .field("precision", report.labels[i].precision)
        .field("recall", report.labels[i].recall)
        .field("f1", report.labels[i].f1)
        .field("support", report.labels[i].support)
        .end_object();
  }
  print_stdout("{}\n", json.end_array().field("seconds", seconds).end_object().text());
}

void print_text(const LabelReport& report, const std::vector<std::string>& names, std::size_t lines,
                const char* unit) {
  print_stdout("accuracy = {:.2f} %, macro F1 = {:.2f} %, weighted F1 = {:.2f} % of {} {}{}\n",
               100 * report.accuracy, 100 * report.macro_f1, 100 * report.weighted_f1, lines, unit,
               lines == 1 ? "" : "s");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const LabelStatistics& label = report.labels[i];
    print_stdout("{}: precision {:.2f} %, recall {:.2f} %, F1 {:.2f} %, {} {}{}\n", names[i],
                 100 * label.precision, 100 * label.recall, 100 * label.f1, label.support, unit,
                 label.support == 1 ? "" : "s");
  }
}

}  // namespace

void evaluate_labels(const LabelEvaluation& arguments, const Globals& globals) {
  if (arguments.model.name.empty())
    throw UsageError("evaluate: missing --model, which --data and --tsv need");
  const LoadedModel loaded = open_model(arguments.model, globals, arguments.weights, true);
  const std::vector<Task> tasks = loaded.tasks();
  const auto has = [&](Task task) { return !tasks.empty() && tasks.front() == task; };
  if (has(Task::transcribe)) {
    warn_of_settings(loaded, globals);
    return print_scores(speech_recipe(arguments), arguments.model, globals);
  }
  if (traits_of(loaded.model()).is(ModelKind::dual_encoder) ||
      !(has(Task::classify) || has(Task::classify_images) || has(Task::tag) || has(Task::answer)))
    refuse(loaded, Task::classify);
  warn_of_settings(loaded, globals);
  const EncoderModel& model = loaded.encoder();
  const Recipe recipe = with_defaults(recipe_of(arguments, model, globals.quiet));
  const bool images = recipe.task.kind == "image-classification";
  if (!images && (recipe.task.kind != "classification" || recipe.task.problem != "single-label"))
    return print_scores(recipe, arguments.model, globals);
  refuse_unused_keys(recipe);
  const std::vector<std::string>& labels = model.labels();
  const char* hint = arguments.is_tsv ? "--columns says which column has what, e.g. label,text"
                     : images ? "the folders are named as the labels; --set data.format=tsv reads a table"
                              : "--set data.label_column and data.text_column choose columns, "
                                "data.header=true skips a header line";
  const LabeledInputs data = read_inputs(recipe, labels, hint, globals.quiet);
  const char* const unit = images ? "images" : "texts";
  TaskOptions options;
  options.batch_tokens = arguments.batch_tokens;
  std::map<std::string, std::size_t> warned;  // how often; texts that are too long may be thousands
  options.on_warning = [&](std::size_t line, const std::string& message) {
    if (++warned[message] == 1 && !globals.quiet)
      warn(arguments.data + ": text " + std::to_string(line + 1) + ": " + message);
  };
  std::vector<std::size_t> predicted;
  Progress progress(globals.quiet);
  const auto started = std::chrono::steady_clock::now();
  constexpr std::size_t kWindow = 2048;
  const std::size_t count = data.labels.size();
  for (std::size_t begin = 0; begin < count; begin += kWindow) {
    options.first_index = begin;
    const std::size_t size = std::min(kWindow, count - begin);
    const auto found =
        images ? classify_images(model, loaded.image_processor(), std::span(data.files).subspan(begin, size),
                                 1, options)
               : classify(model, loaded.tokenizer(), std::span(data.texts).subspan(begin, size), 1, options);
    for (const auto& scores : found) predicted.push_back(scores.front().index);
    progress.show(static_cast<std::int64_t>(predicted.size()), static_cast<std::int64_t>(count), unit);
  }
  progress.finish();
  for (const auto& [message, count] : warned) {
    if (count > 1 && !globals.quiet)
      warn(arguments.data + ": " + std::to_string(count - 1) + " more texts: " + message);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const LabelReport report = label_report(predicted, data.labels, labels.size());
  if (globals.json) {
    print_json(report, labels, predicted.size(), seconds);
  } else {
    print_text(report, labels, predicted.size(), images ? "image" : "line");
  }
}

}  // namespace heed::cli
