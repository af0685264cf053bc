// heed steer: makes steering vectors of two sets of texts, which --steer adds to a model's residual stream.
#include <fmt/core.h>

#include <cmath>

#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/input/input.h"
#include "cli/options/option_values.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/terminal.h"
#include "heed/inspect/steering_directions.h"
#include "heed/io/json.h"

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

double length_of(const Tensor& vector) {
  double sum = 0;
  for (const double number : vector.to(DType::f64).to_vector<double>()) sum += number * number;
  return std::sqrt(sum);
}

HeatTable steer_table(const std::vector<SteeringDirection>& directions) {
  HeatTable table{.title = "Steering vectors",
                  .rows_title = "layer",
                  .legend =
                      "length of the vector; stream: mean length of the texts' streams; separated: share of "
                      "the texts on the right side of the middle",
                  .rows = {},
                  .columns = {"length", "stream", "separated"},
                  .cells = {}};
  for (const SteeringDirection& one : directions) {
    table.rows.push_back(std::to_string(one.vector.layer));
    table.cells.push_back({{fmt::format("{:.4g}", length_of(one.vector.vector))},
                           {fmt::format("{:.4g}", one.stream)},
                           {fmt::format("{:.3f}", one.separated), one.separated}});
  }
  return table;
}

std::string steer_json(const std::vector<SteeringDirection>& directions) {
  JsonWriter json;
  json.begin_array();
  for (const SteeringDirection& one : directions) {
    json.begin_object().field("stack", one.vector.stack).field("layer", one.vector.layer);
    json.field("length", length_of(one.vector.vector)).field("stream", one.stream);
    json.field("separated", one.separated).end_object();
  }
  return json.end_array().text();
}

void run(SteerArguments& a, const Globals& globals) {
  for (const std::filesystem::path& output : a.outputs) {
    if (output.extension() != ".safetensors" && output.extension() != ".gguf")
      throw UsageError("--output: expected a file ending in .safetensors or .gguf, got " + output.string());
  }
  const AnalyzedModel loaded = load_analyzed(a.model, globals);
  if (loaded.reads_files())
    throw Error("steer: expected a model of texts, got " + loaded.model->family() + ", which reads " +
                loaded.reads() + "s");
  const auto positive = ids_of_lines(a.positive, *loaded.tokenizer, globals);
  const auto negative = ids_of_lines(a.negative, *loaded.tokenizer, globals);
  Progress progress(globals.quiet);
  a.options.progress = [&](std::int64_t done, std::int64_t total) { progress.show(done, total, "texts"); };
  const std::vector<SteeringDirection> directions =
      steering_directions(*loaded.model, positive, negative, a.options);
  progress.finish();
  std::vector<SteeringVector> vectors;
  for (const SteeringDirection& one : directions) vectors.push_back(one.vector);
  const std::map<std::string, std::string> metadata{{"format", "pt"},
                                                    {"model", title_of(a.model)},
                                                    {"model_type", loaded.model->family()},
                                                    {"method", a.method},
                                                    {"tokens", a.tokens},
                                                    {"positive_texts", std::to_string(positive.size())},
                                                    {"negative_texts", std::to_string(negative.size())}};
  for (const std::filesystem::path& output : a.outputs) {
    save_steering(output, vectors, loaded.model->family(), metadata);
    if (!globals.quiet) print_stderr("wrote " + output.string());
  }
  HeatTable table = steer_table(directions);
  table.subtitle = subtitle_of(a.model, a.positive + " − " + a.negative);
  show_table(table, steer_json(directions), {}, globals);
}

}  // namespace

void add_steer(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("steer", "Make steering vectors, by which two sets of texts differ inside a model");
  auto a = std::make_shared<SteerArguments>();
  command->add_option("--positive", a->positive, "File with a text in each line: towards what to steer")
      ->required()
      ->type_name("FILE")
      ->group("Input");
  command->add_option("--negative", a->negative, "File with a text in each line: away from what")
      ->required()
      ->type_name("FILE")
      ->group("Input");
  add_stored_model_option(*command, a->model)->required();
  accept_words(command->add_option("--method", a->method,
                                   "The difference of the means, or the first principal direction of the "
                                   "differences of pairs, line by line"),
               {"mean", "pca"})
      ->capture_default_str()
      ->group("Output");
  accept_words(command->add_option("--tokens", a->tokens,
                                   "Whose stream a text has: that of its last token, or the mean over all"),
               {"last", "mean"})
      ->capture_default_str()
      ->group("Output");
  command
      ->add_option(
          "--output,-o", a->outputs,
          "Write the vectors: .safetensors, or .gguf for a control vector of llama.cpp; may be repeated")
      ->allow_extra_args(false)
      ->required()
      ->type_name("FILE")
      ->group("Output");
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
