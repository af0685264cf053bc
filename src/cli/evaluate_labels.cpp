// heed evaluate --tsv: computes accuracy and F1 of a model that labels texts.
#include "cli/evaluate_labels.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <sstream>

#include "cli/input.h"
#include "cli/model_commands.h"
#include "cli/task_arguments.h"
#include "cli/terminal.h"
#include "heed/io/json.h"
#include "heed/score/labels.h"
#include "heed/tasks/classify.h"

namespace heed::cli {
namespace {

struct LabeledTexts {
  std::vector<TextPair> texts;
  std::vector<std::size_t> labels;
};

std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> columns{""};
  for (const char c : line) {
    if (c == '\t') {
      columns.emplace_back();
    } else {
      columns.back() += c;
    }
  }
  return columns;
}

// Returns a label's number, given its name or the number itself.
std::optional<std::size_t> label_number(const std::string& text, const std::vector<std::string>& names) {
  const auto named = std::find(names.begin(), names.end(), text);
  if (named != names.end()) return static_cast<std::size_t>(named - names.begin());
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != text.npos)
    return std::nullopt;
  const auto number = static_cast<std::size_t>(std::stoul(text));
  return number < names.size() ? std::optional(number) : std::nullopt;
}

/// Which column, from 0, has what.
struct Columns {
  std::size_t text = 0, label = 1;
  std::optional<std::size_t> pair = {};
  std::size_t count = 2;  // of a line
  bool exactly = true;    // or more
};

// "label,text": the columns in their order; - is for one that is not read.
Columns columns_named(const std::string& names) {
  Columns columns{.count = 0, .exactly = false};
  std::optional<std::size_t> text, label;
  std::istringstream stream(names);
  bool good = true;
  for (std::string name; std::getline(stream, name, ','); ++columns.count) {
    std::optional<std::size_t>* column = name == "text"    ? &text
                                         : name == "label" ? &label
                                         : name == "pair"  ? &columns.pair
                                                           : nullptr;
    good = good && (column != nullptr ? !column->has_value() : name == "-");
    if (column != nullptr) *column = columns.count;
  }
  if (!good || !text || !label)
    throw UsageError(
        "--columns: expected text, label and perhaps pair, - for other columns, separated by commas, "
        "got " +
        names);
  columns.text = *text;
  columns.label = *label;
  return columns;
}

using Lines = std::vector<std::vector<std::string>>;

// Whether column `column` of every line is a label; the first line may be a header.
bool are_labels(const Lines& lines, std::size_t column, const std::vector<std::string>& names) {
  std::size_t labels = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool label = column < lines[i].size() && label_number(lines[i][column], names);
    if (!label && i > 0) return false;
    labels += label ? 1 : 0;
  }
  return labels > 0;
}

// The label is last, unless only the first column has labels.
Columns columns_found(const Lines& lines, const std::string& file, const std::vector<std::string>& names,
                      bool quiet) {
  const std::size_t count = lines.empty() ? 2 : lines.back().size();
  const bool pairs = count == 3;
  const bool first = !are_labels(lines, count - 1, names) && are_labels(lines, 0, names);
  if (first && !quiet)
    print_stderr(file + ": labels are in the first column, texts in the " + (pairs ? "others" : "second"));
  if (first) return {1, 0, pairs ? std::optional<std::size_t>(2) : std::nullopt, count};
  return {0, count - 1, pairs ? std::optional<std::size_t>(1) : std::nullopt, count};
}

LabeledTexts read_labeled(const LabelEvaluation& arguments, const std::vector<std::string>& names,
                          bool quiet) {
  const std::string& file = arguments.tsv;
  Lines lines;
  for (const std::string& line : read_lines(file, quiet)) {
    lines.push_back(columns_of(line));
    const std::size_t count = lines.back().size();
    if (arguments.columns.empty() && (count < 2 || count > 3)) {
      throw Error(
          fmt::format("{}:{}: expected one or two texts and a label, separated by tabs, got {} column{}",
                      file, lines.size(), count, count == 1 ? "" : "s"));
    }
  }
  const Columns columns =
      arguments.columns.empty() ? columns_found(lines, file, names, quiet) : columns_named(arguments.columns);
  LabeledTexts read;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::vector<std::string>& line = lines[i];
    const std::string where = file + ":" + std::to_string(i + 1);
    if (line.size() < columns.count || (columns.exactly && line.size() > columns.count))
      throw Error(fmt::format("{}: expected {} columns separated by tabs, got {}", where, columns.count,
                              line.size()));
    const std::optional<std::size_t> label = label_number(line[columns.label], names);
    if (!label && i == 0) continue;  // a header line
    if (!label) {
      throw Error(
          fmt::format("{}: expected one of the model's labels, got \"{}\" (--columns says which column "
                      "has what, e.g. label,text)",
                      where, line[columns.label]));
    }
    read.texts.push_back({line[columns.text], std::nullopt});
    if (columns.pair) read.texts.back().second = line[*columns.pair];
    read.labels.push_back(*label);
  }
  if (read.texts.empty()) throw Error(file + ": missing lines of texts and labels");
  return read;
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
  fmt::print("{}\n", json.end_array().field("seconds", seconds).end_object().text());
}

void print_text(const LabelReport& report, const std::vector<std::string>& names, std::size_t lines) {
  fmt::print("accuracy = {:.2f} %, macro F1 = {:.2f} %, weighted F1 = {:.2f} % of {} line{}\n",
             100 * report.accuracy, 100 * report.macro_f1, 100 * report.weighted_f1, lines,
             lines == 1 ? "" : "s");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const LabelStatistics& label = report.labels[i];
    fmt::print("{}: precision {:.2f} %, recall {:.2f} %, F1 {:.2f} %, {} line{}\n", names[i],
               100 * label.precision, 100 * label.recall, 100 * label.f1, label.support,
               label.support == 1 ? "" : "s");
  }
}

}  // namespace

void evaluate_labels(const LabelEvaluation& arguments, const Globals& globals) {
  if (arguments.model.name.empty()) throw UsageError("evaluate: missing --model, which --tsv needs");
  const auto loaded = open_model_to<EncoderModel>(Task::classify, arguments.model, DType::f32, globals);
  const std::vector<std::string>& labels = loaded.model->labels();
  if (label_function(*loaded.model) != LabelFunction::softmax)
    throw Error(
        "evaluate --tsv: expected a model that gives each text one label, got one with several or a score");
  const LabeledTexts data = read_labeled(arguments, labels, globals.quiet);
  TaskOptions options;
  options.batch_tokens = arguments.batch_tokens;
  std::map<std::string, std::size_t> warned;  // how often; texts that are too long may be thousands
  options.on_warning = [&](std::size_t line, const std::string& message) {
    if (++warned[message] == 1 && !globals.quiet)
      warn(arguments.tsv + ": text " + std::to_string(line + 1) + ": " + message);
  };
  std::vector<std::size_t> predicted;
  Progress progress(globals.quiet);
  const auto started = std::chrono::steady_clock::now();
  constexpr std::size_t kWindow = 2048;
  for (std::size_t begin = 0; begin < data.texts.size(); begin += kWindow) {
    options.first_index = begin;
    const auto window = std::span(data.texts).subspan(begin, std::min(kWindow, data.texts.size() - begin));
    for (const auto& scores : classify(*loaded.model, *loaded.tokenizer, window, 1, options))
      predicted.push_back(scores.front().index);
    progress.show(static_cast<std::int64_t>(predicted.size()), static_cast<std::int64_t>(data.texts.size()),
                  "texts");
  }
  progress.finish();
  for (const auto& [message, count] : warned) {
    if (count > 1 && !globals.quiet)
      warn(arguments.tsv + ": " + std::to_string(count - 1) + " more texts: " + message);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const LabelReport report = label_report(predicted, data.labels, labels.size());
  if (globals.json) {
    print_json(report, labels, predicted.size(), seconds);
  } else {
    print_text(report, labels, predicted.size());
  }
}

}  // namespace heed::cli
