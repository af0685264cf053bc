// heed heads: measures every attention head over texts, images or sounds.
#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/options/option_group.h"

namespace heed::cli {
namespace {

struct HeadsArguments {
  GivenInputs given;
  HeadsReportOptions options;
  ModelChoice model;
  ReportOutput output;
};

void run(const HeadsArguments& a, const Globals& globals) {
  a.output.check();
  a.given.check_many();
  const AnalyzedModel model = load_analyzed(a.model, globals);
  model.refuse_for_files("separator", !a.options.separators.empty());
  const std::vector<AnalyzedInput> inputs = a.given.read_many(model, globals);
  show_report(model, a.output, globals, [&](const AnalysisProgress&) {
    return heads(model, inputs, a.options, a.given.title(model, inputs));
  });
}

}  // namespace

void add_heads(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("heads", "Measure every attention head over texts, images or sounds");
  auto a = std::make_shared<HeadsArguments>();
  a->given.add_many(*command, "Instead of texts: rows with clean (and target)", a->model);
  OptionGroup output(*command, "Output");
  output.value("--kind", a->options.kind, "encoder|decoder|cross",
               "Which attention is measured: self-attention of the encoder or decoder, or cross-attention "
               "(default: self-attention; of an encoder-decoder, the decoder's)");
  output.value("--separator", a->options.separators, "TOKEN",
               "A token that counts as separator (default: the tokens of the tokenizer that begin, separate "
               "and end texts)");
  output.value("--sort", a->options.sort, "COLUMN",
               "The heads with the largest numbers in this column first (default: by layer)");
  a->output.add_to(*command, kReportOutput);
  command->footer(
      "Columns: previous, duplicate, induction, first and separator are mean weights on the token\n"
      "before, on earlier equal tokens, on the tokens that followed those, on the first token and on\n"
      "separators; entropy (nats) and distance (tokens) are those of the weights; size is the length of\n"
      "what a head adds to the residual stream, over the length of the stream. What a head does for a\n"
      "prediction, heed ablate shows.\n\n"
      "Examples:\n"
      "  heed heads --model gpt2 \"The cat sat on the mat. The cat slept.\"\n"
      "  heed heads --model gpt2 --repeat 50 --output heads.svg\n"
      "  heed heads --model gpt2 --repeat 50 --sort induction\n"
      "  heed heads --model gpt2 --texts lines.txt --json\n"
      "  heed heads --model ./vit photo.jpg");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
