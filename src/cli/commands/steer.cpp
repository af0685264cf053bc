// heed steer: makes steering vectors of two sets of texts, which --steer adds to a model's residual stream.
#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/input/input.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/terminal.h"

namespace heed::cli {
namespace {

struct SteerArguments {
  std::string positive, negative;
  SteeringOptions options;
  std::string method = "mean", tokens = "last";
  ModelChoice model;
  std::vector<std::filesystem::path> outputs;
};

std::vector<std::vector<std::int64_t>> ids_of_lines(const std::string& file, const Tokenizer& tokenizer,
                                                    const Globals& globals) {
  std::vector<std::vector<std::int64_t>> ids;
  for (const std::string& line : read_lines(file, globals.quiet)) {
    if (!line.empty()) ids.push_back(tokenizer.encode(line).ids);
  }
  if (ids.empty()) throw Error(file + ": expected a text in each line, got none");
  return ids;
}

void write(const SteerArguments& a, const Model& model, const std::vector<SteeringDirection>& directions,
           const Globals& globals, std::map<std::string, std::string> metadata) {
  std::vector<SteeringVector> vectors;
  for (const SteeringDirection& one : directions) vectors.push_back(one.vector);
  metadata.insert({{"format", "pt"},
                   {"model", title_of(a.model)},
                   {"model_type", model.family()},
                   {"method", a.method},
                   {"tokens", a.tokens}});
  for (const std::filesystem::path& output : a.outputs) {
    save_steering(output, vectors, model.family(), metadata);
    if (!globals.quiet) print_stderr("wrote " + output.string());
  }
}

void run(SteerArguments& a, const Globals& globals) {
  for (const std::filesystem::path& output : a.outputs) {
    if (output.extension() != ".safetensors" && output.extension() != ".gguf")
      throw UsageError("--output: expected a file ending in .safetensors or .gguf, got " + output.string());
  }
  const AnalyzedModel model = load_analyzed(a.model, globals);
  if (model.reads_files())
    throw Error("steer: expected a model of texts, got " + model.model->family() + ", which reads " +
                model.reads() + "s");
  const auto positive = ids_of_lines(a.positive, *model.tokenizer(), globals);
  const auto negative = ids_of_lines(a.negative, *model.tokenizer(), globals);
  Progress bar(globals.quiet);
  a.options.progress = [&](std::int64_t done, std::int64_t total) { bar.show(done, total, "texts"); };
  const std::vector<SteeringDirection> directions =
      steering_directions(*model.model, positive, negative, a.options);
  bar.finish();
  write(a, *model.model, directions, globals,
        {{"positive_texts", std::to_string(positive.size())},
         {"negative_texts", std::to_string(negative.size())}});
  show_report(model, {}, globals, [&](const AnalysisProgress&) {
    return steering_report(model, directions, a.positive + " − " + a.negative);
  });
}

}  // namespace

void add_steer(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("steer", "Make steering vectors, by which two sets of texts differ inside a model");
  auto a = std::make_shared<SteerArguments>();
  OptionGroup input(*command, "Input"), output(*command, "Output");
  input.value("--positive", a->positive, "FILE", "File with a text in each line: towards what to steer")
      ->required();
  input.value("--negative", a->negative, "FILE", "File with a text in each line: away from what")->required();
  add_stored_model_argument(*command, a->model)->required();
  output.word(
      "--method", a->method, {"mean", "pca"},
      "The difference of the means, or the first principal direction of the differences of pairs, line "
      "by line");
  output.word("--tokens", a->tokens, {"last", "mean"},
              "Whose stream a text has: that of its last token, or the mean over all");
  output
      .value("--output,-o", a->outputs, "FILE",
             "Write the vectors: .safetensors, or .gguf for a control vector of llama.cpp; may be repeated")
      ->required();
  command->footer(
      "Examples:\n"
      "  heed steer --model gpt2 --positive happy.txt --negative sad.txt --output mood.safetensors\n"
      "  heed generate --model gpt2 --steer mood.safetensors=1.5 --steer-layers 4:9 \"Today I feel\"\n"
      "  heed steer --model gpt2 --positive happy.txt --negative sad.txt --method pca --output mood.gguf");
  command->callback([a, &globals] {
    a->options.method = a->method == "pca" ? SteeringMethod::pca : SteeringMethod::mean;
    a->options.mean_over_tokens = a->tokens == "mean";
    run(*a, globals);
  });
}

}  // namespace heed::cli
