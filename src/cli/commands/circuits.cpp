// heed circuits: what the heads of a model can do, read off their weights.
#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"

namespace heed::cli {
namespace {

struct CircuitsArguments {
  std::string head;
  bool no_compositions = false, no_fold_final_norm = false;
  CircuitsReportOptions options;
  ModelChoice model;
  ReportOutput output;
};

void run(const CircuitsArguments& a, const Globals& globals) {
  a.output.check({".svg", ".pdf", ".png", ".csv"});
  CircuitsReportOptions options = a.options;
  options.compositions = !a.no_compositions;
  options.fold_final_norm = !a.no_fold_final_norm;
  if (!a.head.empty()) options.head = parse_head(a.head);
  const AnalyzedModel model = load_analyzed(a.model, globals);
  show_report(model, a.output, globals, [&](const AnalysisProgress& progress) {
    options.progress = progress;
    return circuits(model, options);
  });
}

}  // namespace

void add_circuits(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "circuits", "Show what heads can do by their weights: copy, look at a position, read earlier heads");
  auto a = std::make_shared<CircuitsArguments>();
  add_stored_model_argument(*command, a->model)->required();
  OptionGroup output(*command, "Output");
  output.value("--kind", a->options.kind, "encoder|decoder",
               "Whose self-attention (default: that of the stack that predicts)");
  output.value("--head", a->head, "LAYER.HEAD",
               "One head: the tokens that its OV circuit reads and writes, and its compositions alone");
  output.flag("--no-compositions", a->no_compositions, "Leave out which heads read which");
  output.flag("--no-fold-final-norm", a->no_fold_final_norm,
              "Copying scores of the output matrix as it is in the file, without the final norm's weight");
  output.count("--top", a->options.top, 1, "Number of compositions to show, the strongest first");
  output.count("--directions", a->options.directions, 1,
               "With --head: number of singular directions to show");
  output.count("--tokens", a->options.tokens, 1, "With --head: number of tokens to show for each");
  a->output.add_to(*command, "Write a figure (.svg, .pdf, .png), or the table of the heads (.csv)");
  command->footer(
      "Examples:\n"
      "  heed circuits --model gpt2\n"
      "  heed circuits --model gpt2 --head 5.1\n"
      "  heed circuits --model gpt2 --top 100 --json\n"
      "  heed circuits --model gpt2 --output circuits.csv");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
