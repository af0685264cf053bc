// heed lens: what each layer of a model would predict, of a text the next token, of a file its label.
#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/options/option_group.h"

namespace heed::cli {
namespace {

struct LensArguments {
  GivenInputs given;
  ModelChoice model;
  std::int64_t top_k = 1;
  ReportOutput output;
};

void run(const LensArguments& a, const Globals& globals) {
  a.output.check();
  const AnalyzedModel model = load_analyzed(a.model, globals);
  if (model.reads_files()) required_labels(model, "lens");  // before the file is read
  const std::vector<AnalyzedInput> inputs = a.given.read_one(model, globals, "lens");
  show_report(model, a.output, globals,
              [&](const AnalysisProgress&) { return lens(model, inputs.front(), a.top_k); });
}

}  // namespace

void add_lens(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("lens", "Show what each layer would predict");
  auto a = std::make_shared<LensArguments>();
  a->given.add_one(*command, "The text; for a classifier of images or sounds, a file, or - for stdin",
                   nullptr, a->model);
  OptionGroup(*command, "Output")
      .count("--top-k", a->top_k, 1,
             "Tokens of every layer and position, in JSON and tooltips; labels of every layer");
  a->output.add_to(*command, kReportOutput);
  command->footer(
      "Examples:\n"
      "  heed lens \"The cat sat on the\" --model gpt2\n"
      "  heed lens \"The capital of France is [MASK].\" --model bert-base-uncased\n"
      "  heed lens photo.jpg --model ./vit --top-k 3\n"
      "  heed lens \"I like tea.\" --model en-fr --target \"J'aime le thé.\" --top-k 5 --json");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
