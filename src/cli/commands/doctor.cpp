// heed doctor: checks a model as it is used.
#include "heed/doctor.h"

#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <map>
#include <optional>

#include "cli/cli.h"
#include "cli/input/lines.h"
#include "cli/input/models.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/terminal.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "heed/models/kind.h"
#include "plot/labels.h"

namespace heed::cli {
namespace {

struct DoctorArguments {
  ModelChoice model;
  std::filesystem::path text, reference;
  std::optional<double> expected_loss;
};

std::string colored(CheckStatus status) {
  const std::string name = fmt::format("{:<8}", name_of(status));
  if (!color_stdout()) return name;
  const char* color = status == CheckStatus::failed    ? "31"
                      : status == CheckStatus::warning ? "33"
                      : status == CheckStatus::ok      ? "32"
                                                       : "2";
  return fmt::format("\x1b[{}m{}\x1b[0m", color, name);
}

void print_result(const CheckResult& result) {
  print_styled(colored(result.finding.status));
  constexpr int kIndent = 30;
  const int width = std::max(40, terminal_width(INT_MAX)) - kIndent;
  std::string lines;
  for (const std::string& text : {result.finding.measurement, result.finding.advice}) {
    if (text.empty()) continue;
    for (const std::string& line : plot::wrap(printable(text), width, text.size()))
      lines += (lines.empty() ? "" : std::string(kIndent, ' ')) + line + "\n";
  }
  print_stdout(" {:<20} {}", result.name, lines);
  std::fflush(stdout);
}

std::map<CheckStatus, int> count(const std::vector<CheckResult>& results) {
  std::map<CheckStatus, int> counts;
  for (const CheckResult& result : results) ++counts[result.finding.status];
  return counts;
}

void print_findings(const std::string& directory, const Model* model,
                    const std::vector<CheckResult>& results) {
  auto counts = count(results);
  JsonWriter json;
  json.begin_object()
      .field("directory", directory)
      .field("model_type", model == nullptr ? std::nullopt : std::optional(model->family()));
  for (const CheckStatus status :
       {CheckStatus::ok, CheckStatus::warning, CheckStatus::failed, CheckStatus::skipped})
    json.field(name_of(status), counts[status]);
  json.key("checks").begin_array();
  for (const CheckResult& result : results) {
    const Finding& found = result.finding;
    json.begin_object()
        .field("name", result.name)
        .field("status", name_of(found.status))
        .field("measurement", found.measurement)
        .field("advice", found.advice)
        .key("values")
        .begin_object();
    for (const auto& [name, value] : found.values) json.field(name, value);
    json.end_object().end_object();
  }
  print_stdout("{}\n", json.end_array().end_object().text());
}

void run(const DoctorArguments& a, const Globals& globals) {
  if (a.expected_loss && a.text.empty())
    throw UsageError("--expect-loss: needs --texts FILE, on which the model has that loss");
  if (!a.reference.empty() && a.text.empty())
    throw UsageError("--reference: needs --texts FILE, whose lines it translates");
  require_name(a.model.name);
  LoadOptions options = load_options(a.model);
  options.head = true;
  const std::string text = a.text.empty() ? std::string() : read_file(a.text);
  const std::string reference = a.reference.empty() ? std::string() : read_file(a.reference);
  std::optional<Waiting> waiting(std::in_place, opening(a.model), globals.quiet);
  const LoadedModel opened = heed::open_model(a.model.name, options);
  CheckedModel checked = checked_model(opened);
  waiting.reset();
  if (checked.model != nullptr && !reference.empty() &&
      !traits_of(*checked.model).is(ModelKind::encoder_decoder))
    throw UsageError("--reference: expected an encoder-decoder, got " + opened.kind());
  checked.text = text;
  checked.reference = reference;
  checked.expected_loss = a.expected_loss;
  const std::vector<std::string> names = check_names();
  std::size_t done = 0;
  waiting.emplace("checking " + names[done], globals.quiet);
  const auto results = examine(checked, [&](const CheckResult& result) {
    waiting.reset();
    if (!globals.json) print_result(result);
    if (++done < names.size()) waiting.emplace("checking " + names[done], globals.quiet);
  });
  auto counts = count(results);
  if (globals.json) {
    print_findings(opened.directory(), checked.model, results);
  } else {
    if (counts[CheckStatus::failed] == 0 && !a.expected_loss)
      print_stdout("no check knows what the model should say: --texts FILE --expect-loss NATS compares\n");
    print_stdout("{} checks: {} ok, {} warnings, {} failed, {} skipped\n", results.size(),
                 counts[CheckStatus::ok], counts[CheckStatus::warning], counts[CheckStatus::failed],
                 counts[CheckStatus::skipped]);
  }
  if (counts[CheckStatus::failed] > 0) throw ReportedError();
}

}  // namespace

void add_doctor(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Check a model as it is used: masks, positions, padding, cache, heads, files");
  auto a = std::make_shared<DoctorArguments>();
  OptionGroup input(*command, "Input");
  add_stored_model_argument(*command, a->model)->required();
  input.value("--texts", a->text, "FILE",
              "File of text, for the loss by position up to and beyond the trained length");
  input.value("--reference", a->reference, "FILE",
              "File with a translation of each line of --texts, for an encoder-decoder");
  input
      .value("--expect-loss", a->expected_loss, "NATS",
             "Mean loss in nats that the model has on --texts elsewhere; one that is higher, by more than "
             "rounding, fails")
      ->check(CLI::PositiveNumber);
  command->footer(
      "Prints a line for each check, and what to do about a warning or a failure. The exit status is 1 if a "
      "check\n"
      "fails.\n"
      "\n"
      "Examples:\n"
      "  heed doctor en-fr\n"
      "  heed doctor ./checkpoint --texts held-out.txt\n"
      "  heed doctor ./converted --texts held-out.txt --expect-loss 2.31\n"
      "  heed doctor en-fr --texts test.en --reference test.fr\n"
      "  heed doctor gpt2 --adapter runs/poems\n"
      "  heed doctor ./checkpoint --json");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
