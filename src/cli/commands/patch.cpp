// heed patch: activation patching between two texts, images or sounds.
#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/input/input.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"

namespace heed::cli {
namespace {

enum class PatchInto : std::uint8_t { usual, corrupted, clean };

struct PatchArguments {
  std::optional<std::string> clean, corrupted, target;
  std::filesystem::path prompts;
  MetricChoice metric;
  PatchReportOptions options;
  PatchInto into = PatchInto::usual;
  bool attribution = false, check_attribution = false;
  ModelChoice model;
  ReportOutput output;
};

std::vector<AnalyzedPair> pairs_of(const PatchArguments& a, const AnalyzedModel& model,
                                   const Globals& globals) {
  model.refuse_for_files("target", a.target.has_value());
  model.refuse_for_files("prompts", !a.prompts.empty());
  if (model.reads_files()) {
    const std::vector<std::string> files = file_arguments({*a.clean, *a.corrupted});
    return {file_pair(model, files[0], files[1])};
  }
  if (!a.prompts.empty()) return prompt_pairs(model, read_prompts(a.prompts), a.target);
  return {text_pair(model, valid_text(*a.clean, "patch", globals.quiet),
                    valid_text(*a.corrupted, "patch", globals.quiet), a.target)};
}

void run(const PatchArguments& a, const Globals& globals) {
  a.output.check();
  if (a.prompts.empty() ? !a.clean || !a.corrupted : a.clean.has_value())
    throw UsageError("patch: expected two texts, or --prompts FILE");
  PatchReportOptions options = a.options;
  if (a.into != PatchInto::usual) options.into_clean = a.into == PatchInto::clean;
  options.method = a.check_attribution ? PatchMethod::both
                   : a.attribution     ? PatchMethod::gradient
                                       : PatchMethod::passes;
  const AnalyzedModel model = load_analyzed(a.model, globals);
  const std::vector<AnalyzedPair> pairs = pairs_of(a, model, globals);
  show_report(model, a.output, globals, [&](const AnalysisProgress& progress) {
    options.progress = progress;
    return patch(model, pairs, a.metric, options,
                 a.prompts.empty() ? *a.clean + " → " + *a.corrupted : a.prompts.string());
  });
}

}  // namespace

void add_patch(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "patch", "Show where two texts or images differ for a model: values of one run instead of the other's");
  auto a = std::make_shared<PatchArguments>();
  command->add_option("clean", a->clean, "The text, image or sound whose values are taken");
  command->add_option("corrupted", a->corrupted,
                      "The one that gets them, with the same number of tokens, patches or frames");
  OptionGroup input(*command, "Input"), output(*command, "Output");
  input.value(
      "--prompts", a->prompts, "FILE.jsonl|.tsv|.csv",
      "Instead of two texts: rows with clean, corrupted, and A and B for --token and --other; cells are "
      "means with a standard error");
  input.value("--target", a->target, "TEXT", "Target text, for the decoder of an encoder-decoder");
  add_model_option(*command, a->model)->required();
  output.value(
      "--kind", a->options.kind, "encoder|decoder|cross",
      "Whose layers, or cross-attention (default: the decoder's; the encoder's of an encoder-decoder, "
      "where the texts differ)");
  output.value("--site", a->options.site, "residual|attention|feed-forward|heads",
               "What is patched (default: the residual stream before each layer; of cross-attention, what it "
               "adds; of files, the heads)");
  output.value(
      "--path", a->options.path, "L.H:q|k|v, L.ff or logits",
      "Instead of a site: what each earlier head, feed-forward network and the embeddings do through "
      "the queries, keys or values of a head (5.1:q), a feed-forward network (5.ff), or the logits, "
      "directly");
  output.choice<PatchInto>(
      "--into", a->into,
      {{"corrupted", PatchInto::corrupted}, {"clean", PatchInto::clean}, {"auto", PatchInto::usual}},
      "Which run gets values of the other (default: the corrupted one; with --path, the clean one)");
  output.flag("--attribution", a->attribution,
              "Estimate all cells by one gradient instead of a pass for each (attribution patching)");
  output.flag("--check-attribution", a->check_attribution,
              "Patch, and say how near the estimates of --attribution are");
  add_metric_options(*command, a->metric,
                     "the difference of --token and --other; of files, the predicted labels");
  a->output.add_to(*command, kReportOutput);
  command->footer(
      "Examples:\n"
      "  heed patch \"The capital of France is\" \"The capital of Spain is\" --token \" Paris\" --other \" "
      "Madrid\" --model gpt2\n"
      "  heed patch \"He is\" \"She is\" --token \" his\" --other \" her\" --model gpt2 --site heads "
      "--output "
      "heads.svg\n"
      "  heed patch \"The capital of France is\" \"The capital of Spain is\" --token \" Paris\" --other \" "
      "Madrid\" --model gpt2 --path 9.8:v\n"
      "  heed patch --prompts prompts.jsonl --model gpt2 --site heads --check-attribution --output "
      "heads.csv\n"
      "  heed patch cat.jpg dog.jpg --model ./vit\n"
      "  heed patch \"I like tea.\" \"I like milk.\" --target \"J'aime le\" --token \"▁thé\" --other "
      "\"▁lait\" --kind cross");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
