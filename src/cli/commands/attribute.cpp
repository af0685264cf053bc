// heed attribute logit, input and score: what adds to a prediction, or to where a head looks.
#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/options/option_group.h"

namespace heed::cli {
namespace {

struct AttributeArguments {
  GivenInputs given;
  ModelChoice model;
  MetricChoice metric;
  std::string head;
  AttributeInputOptions input;
  AttributeScoreOptions score;
  ReportOutput output;
};

// Reads the model and the inputs, and shows what `analysis` makes of them.
template <class Analysis>
void run(const AttributeArguments& a, const Globals& globals, const char* where, const Analysis& analysis) {
  a.output.check();
  a.given.check_one(where);
  const AnalyzedModel model = load_analyzed(a.model, globals);
  const std::vector<AnalyzedInput> inputs = a.given.read_one(model, globals, where);
  show_report(model, a.output, globals, [&](const AnalysisProgress& progress) {
    return analysis(model, inputs, a.given.title(model, inputs), progress);
  });
}

void require_text(const AnalyzedModel& model, const char* where) {
  if (model.reads_files())
    throw Error(std::string(where) + ": expected a model of texts, got one of " + model.reads() + "s");
}

void add_logit(CLI::App& attribute, const Globals& globals) {
  CLI::App* command = attribute.add_subcommand(
      "logit", "What each head and feed-forward network adds to the logit of a token");
  auto a = std::make_shared<AttributeArguments>();
  a->given.add_one(*command, "The text",
                   "Instead of a text: rows with clean, and A and B for --token and --other; the mean over "
                   "them, with standard errors",
                   a->model);
  add_token_options(*command, a->metric.token, "Whose logit", "Metric");
  add_other_options(*command, a->metric, "Metric");
  a->output.add_to(*command, kReportOutput);
  command->footer(
      "Examples:\n"
      "  heed attribute logit \"The cat sat on the\" --model gpt2 --token \" mat\" --output mat.svg\n"
      "  heed attribute logit \"The capital of France is\" --model gpt2 --token \" Paris\" --other \" "
      "Rome\"\n"
      "  heed attribute logit --prompts prompts.tsv --model gpt2 --output heads.npz");
  command->callback([a, &globals] {
    if (a->given.prompts.empty() && !a->metric.token.given())
      throw UsageError("--token: missing (whose logit is attributed)");
    run(*a, globals, "attribute logit",
        [&](const auto& model, const auto& inputs, const auto& title, const auto&) {
          require_text(model, "attribute logit");
          return attribute_to_logit(model, inputs, a->metric, title);
        });
  });
}

void add_input(CLI::App& attribute, const Globals& globals) {
  CLI::App* command =
      attribute.add_subcommand("input", "What each token of a text adds to what a model predicts");
  auto a = std::make_shared<AttributeArguments>();
  a->given.add_one(*command, "The text", nullptr, a->model);
  OptionGroup method(*command, "Method");
  method.choice<InputMethod>("--method", a->input.method,
                             {{"gradient", InputMethod::gradient},
                              {"integrated", InputMethod::integrated},
                              {"occlusion", InputMethod::occlusion}},
                             "Gradient times input, integrated gradients, or the fall of the output without "
                             "the token");
  method.count("--steps", a->input.steps, 1,
               "Points between baseline and text, for integrated (default: 50, doubled up to 800 until the "
               "sum is within 5 % of the change of the output)");
  method.choice<InputBaseline>(
      "--baseline", a->input.baseline,
      {{"usual", InputBaseline::usual},
       {"zero", InputBaseline::zero},
       {"pad", InputBaseline::pad},
       {"mask", InputBaseline::mask}},
      "What stands for no token: a zero embedding, or that of the pad or mask token; "
      "usual is the first of mask, pad and unknown token that the tokenizer has, for gradient and "
      "without such tokens zero");
  add_metric_options(*command, a->metric, "the logit of what the model predicts, or of --token");
  OptionGroup(*command, "Output")
      .flag("--all-labels", a->input.all_labels, "A column for each label of a classifier");
  a->output.add_to(*command, kReportOutput);
  command->footer(
      "Examples:\n"
      "  heed attribute input \"A dull film with one good joke.\" --model reviews --method integrated\n"
      "  heed attribute input \"The cat sat on the\" --model gpt2 --token \" mat\" --method occlusion\n"
      "  heed attribute input \"I like tea.\" --model en-fr --target \"J'aime le thé.\" --position 4 --json");
  command->callback([a, &globals] {
    if (a->input.steps && a->input.method != InputMethod::integrated)
      throw UsageError("--steps: expected with --method integrated");
    run(*a, globals, "attribute input",
        [&](const auto& model, const auto& inputs, const auto&, const auto& progress) {
          require_text(model, "attribute input");
          AttributeInputOptions options = a->input;
          if (options.method != InputMethod::gradient) options.progress = progress;
          return attribute_to_input(model, inputs.front(), a->metric, options);
        });
  });
}

void add_score(CLI::App& attribute, const Globals& globals) {
  CLI::App* command = attribute.add_subcommand("score", "What makes a head attend from one token to another");
  auto a = std::make_shared<AttributeArguments>();
  a->given.add_one(
      *command, "The text; for an encoder of images or sounds, a file, or - for stdin",
      "Instead of a text: rows with clean (and target); the mean over them, with standard errors", a->model);
  OptionGroup output(*command, "Output");
  output.value("--head", a->head, "LAYER.HEAD", "The head: its layer and its number, counted from 0")
      ->required();
  output.count("--query", a->score.query, 0, "The position that attends (default: the last)");
  output.count("--key", a->score.key, 0,
               "The position that it attends to (default: the one with the largest weight)");
  output.value("--kind", a->score.kind, "encoder|decoder|cross",
               "Whose self-attention, or cross-attention (default: that of the stack that predicts)");
  output.count("--top-k", a->score.top_k, 1, "Pairs and parts to list");
  a->output.add_to(*command, kReportOutput);
  command->footer(
      "Examples:\n"
      "  heed attribute score \"The cat sat on the mat. The cat\" --model gpt2 --head 5.1\n"
      "  heed attribute score \"The cat sat on the mat. The cat\" --model gpt2 --head 5.1 --query 8 --key 2 "
      "--output score.svg\n"
      "  heed attribute score --prompts prompts.tsv --model gpt2 --head 5.1 --output score.csv\n"
      "  heed attribute score photo.jpg --model ./vit --head 3.0 --query 0\n"
      "  heed attribute score \"I like tea.\" --model en-fr --target \"J'aime le thé.\" --head 1.3 --kind "
      "cross "
      "--json");
  command->callback([a, &globals] {
    a->score.head = parse_head(a->head);
    run(*a, globals, "attribute score",
        [&](const auto& model, const auto& inputs, const auto& title, const auto&) {
          return attribute_to_score(model, inputs, a->score, title);
        });
  });
}

}  // namespace

void add_attribute(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "attribute", "Show what adds to a logit, to an output token by token, or to a head's score");
  command->require_subcommand(1);
  add_logit(*command, globals);
  add_input(*command, globals);
  add_score(*command, globals);
  command->footer(
      "Examples:\n"
      "  heed attribute logit \"The cat sat on the\" --model gpt2 --token \" mat\"\n"
      "  heed attribute input \"A dull film with one good joke.\" --model reviews\n"
      "  heed attribute score \"The cat sat on the mat. The cat\" --model gpt2 --head 5.1");
}

}  // namespace heed::cli
