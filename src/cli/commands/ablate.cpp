// heed ablate: what a model predicts without heads and feed-forward networks.
#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/input/input.h"
#include "cli/options/option_group.h"

namespace heed::cli {
namespace {

struct AblateArguments {
  GivenInputs given;
  MetricChoice metric;
  AblationArguments ablation;
  std::string kind, layers, heads;
  bool each = false, feed_forward = false;
  ModelChoice model;
  ReportOutput output;
};

std::vector<std::int64_t> chosen(const std::string& list, const char* option) {
  return list.empty() || list == "all" ? std::vector<std::int64_t>() : parse_ids(list, option);
}

AblateOptions options_of(const AblateArguments& a, const Globals& globals) {
  const bool chooses = a.each || a.feed_forward || !a.layers.empty() || !a.heads.empty();
  return {.kind = a.kind,
          .each = chooses || a.ablation.remove.empty(),
          .feed_forward = a.feed_forward,
          .layers = chosen(a.layers, "--layers"),
          .heads = chosen(a.heads, "--heads"),
          .remove = a.ablation.remove,
          .replacement = a.ablation.replacement.value_or(Replacement::zero),
          .seed = globals.seed.value_or(0)};
}

void run(const AblateArguments& a, const Globals& globals) {
  a.output.check();
  a.given.check_many();
  a.ablation.check();
  AblateOptions options = options_of(a, globals);
  const AnalyzedModel model = load_analyzed(a.model, globals);
  const std::vector<AnalyzedInput> inputs = a.given.read_many(model, globals);
  options.reference = a.ablation.reference_inputs(
      globals, [&](const std::string& line) { return a.given.input_of(model, line, globals).inputs; });
  show_report(model, a.output, globals, [&](const AnalysisProgress& progress) {
    options.progress = progress;
    return ablate(model, inputs, a.metric, options, a.given.title(model, inputs));
  });
}

}  // namespace

void add_ablate(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("ablate", "Measure what a model predicts without heads and feed-forward networks");
  auto a = std::make_shared<AblateArguments>();
  a->given.add_many(
      *command,
      "Instead of texts: rows with clean, and A and B for --token and --other; values are means "
      "with a standard error",
      a->model);
  OptionGroup ablation(*command, "Ablation");
  ablation.value("--kind", a->kind, "encoder|decoder|cross",
                 "Whose heads (default: self-attention of the stack that predicts)");
  ablation.value("--layers", a->layers, "LIST|all",
                 "Layers whose heads are ablated, one at a time, e.g. 0,3");
  ablation.value("--heads", a->heads, "LIST|all", "Heads of these layers, e.g. 0,3");
  ablation.flag("--feed-forward", a->feed_forward, "Feed-forward networks too: what they add to the stream");
  a->ablation.add_to(*command, "Heads and feed-forward networks that are ablated together");
  ablation.flag("--each", a->each, "With --remove: beside those, also each other head, one at a time");
  add_metric_options(*command, a->metric,
                     "each that the tokens allow; without tokens the loss per token, of a classifier that of "
                     "the label it predicts");
  a->output.add_to(*command, kReportOutput);
  command->footer(
      "Examples:\n"
      "  heed ablate --model gpt2 \"The cat sat on the mat. The cat slept.\"\n"
      "  heed ablate --model gpt2 \"The capital of France is\" --remove 5.1,6.0 --metric probability --token "
      "\" Paris\"\n"
      "  heed ablate --model gpt2 --prompts prompts.tsv --layers 9 --metric logit-diff -o heads.csv\n"
      "  heed ablate --model gpt2 --texts lines.txt --feed-forward --ablation mean --reference corpus.txt\n"
      "  heed ablate --model ./vit photo.jpg");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
