// heed features: what a sparse autoencoder or a transcoder finds in a model's activations, and what the model
// does without a feature, or with more of it.
#include <cmath>

#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/input/input.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"

namespace heed::cli {
namespace {

struct FeaturesArguments {
  std::string text;
  std::optional<std::string> target, reads, writes;
  std::vector<std::string> scale;
  std::optional<std::int64_t> feature;
  std::filesystem::path coder, texts;
  ReportOutput output;
  ModelChoice model;
  std::int64_t top_k = 5;
};

// N=F
std::map<std::int64_t, double> factors_of(const std::vector<std::string>& items) {
  std::map<std::int64_t, double> factors;
  for (const std::string& item : items) {
    std::int64_t feature = -1;
    double factor = 0;
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || !parse_number(item.substr(0, equals), feature) || feature < 0 ||
        !parse_number(item.substr(equals + 1), factor) || !std::isfinite(factor))
      throw UsageError("--scale: expected FEATURE=FACTOR, as 17=0, got " + item);
    factors[feature] = factor;
  }
  return factors;
}

FeatureSites sites_of(const FeaturesArguments& a, const AnalyzedModel& model, const SparseCoder& coder) {
  if (a.reads && coder.is_transcoder() && !a.writes)
    throw UsageError("--writes: missing, which a transcoder needs with --reads");
  if (a.reads) return {*a.reads, a.writes.value_or(*a.reads)};
  FeatureSites sites = feature_sites(*model.model, coder);
  if (a.writes) sites.writes = *a.writes;
  return sites;
}

void run(const FeaturesArguments& a, const Globals& globals) {
  a.output.check({".svg", ".pdf", ".png"});
  const std::map<std::int64_t, double> factors = factors_of(a.scale);
  if (a.feature && !factors.empty()) throw UsageError("--feature: expected without --scale");
  if (!a.texts.empty() && !a.feature) throw UsageError("--texts: missing --feature");
  if (a.text.empty() == a.texts.empty())
    throw UsageError("features: expected a text, or --feature with --texts");
  const AnalyzedModel model = load_analyzed(a.model, globals);
  if (model.reads_files())
    throw Error(std::string("features: expected a model of texts, got one of ") + model.reads() + "s");
  const SparseCoder coder = SparseCoder::load(a.coder);
  FeaturesOptions options{.sites = sites_of(a, model, coder), .top_k = a.top_k};
  const std::string text = valid_text(a.text, "features", globals.quiet);
  show_report(model, a.output, globals, [&](const AnalysisProgress& progress) {
    if (a.feature) {
      const std::vector<std::string> texts =
          a.texts.empty() ? std::vector{text} : read_lines(a.texts.string(), globals.quiet);
      if (texts.size() > 1) options.progress = progress;
      return feature_in_texts(model, texts, a.target, coder, *a.feature, options,
                              a.texts.empty() ? text : a.texts.string());
    }
    const AnalyzedInput input = text_input(model, text, a.target);
    return factors.empty() ? features_of_tokens(model, input, coder, options)
                           : scaled_features(model, input, coder, factors, options);
  });
}

}  // namespace

void add_features(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "features", "Show the features of a sparse autoencoder or transcoder, and remove them");
  auto a = std::make_shared<FeaturesArguments>();
  command->add_option("text", a->text, "The text");
  OptionGroup input(*command, "Input"), model(*command, "Model"), output(*command, "Output");
  input.value("--target", a->target, "TEXT", "Target text, for the decoder of an encoder-decoder");
  input.value("--texts", a->texts, "FILE", "With --feature: texts to look for it in, one a line");
  add_model_option(*command, a->model)->required();
  model
      .value("--sae", a->coder, "DIR",
             "The autoencoder or transcoder: a directory of SAELens or sparsify, with cfg.json")
      ->required();
  model.value("--reads", a->reads, "TAP", "The tap that it reads (default: the place that its file names)");
  model.value("--writes", a->writes, "TAP",
              "The tap that it writes (default: the same; of a transcoder, that of its file)");
  output.count("--feature", a->feature, 0,
               "Instead: where this feature is strongest, and which tokens it speaks for");
  output.value("--scale", a->scale, "N=F",
               "Instead: what the model predicts with feature N times F (0 removes it; repeatable)");
  output.count("--top-k", a->top_k, 1, "Features of each token, tokens of a feature, predictions");
  a->output.add_to(*command, "Write a figure (.svg, .pdf, .png)");
  command->footer(
      "Examples:\n"
      "  heed features \"The cat sat on the mat.\" --model gpt2 --sae gpt2-sae/blocks.8.hook_resid_pre\n"
      "  heed features --feature 1234 --texts reviews.txt --model gpt2 --sae "
      "gpt2-sae/blocks.8.hook_resid_pre\n"
      "  heed features \"The cat sat on the\" --scale 1234=0 --model gpt2 --sae "
      "gpt2-sae/blocks.8.hook_resid_pre");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
