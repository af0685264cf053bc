// heed embed: texts as vectors.
#include "heed/tasks/embed.h"

#include <fmt/core.h>

#include "cli/cli.h"
#include "cli/input.h"
#include "cli/models.h"
#include "cli/option_values.h"
#include "cli/task_arguments.h"
#include "cli/terminal.h"
#include "heed/io/json.h"
#include "heed/io/npy.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"

namespace heed::cli {
namespace {

struct EmbedArguments : TaskArguments {
  std::string pooling;
  bool normalize = false;
  std::optional<std::string> prompt;
  std::string prompt_name;
  std::int64_t max_length = 0;
  std::filesystem::path output;
};

// The directory's recipe with what the command line says instead.
EmbeddingRecipe recipe_of(const EmbedArguments& arguments, const std::filesystem::path& directory,
                          const Model& model, const Globals& globals) {
  EmbeddingRecipe recipe = load_embedding_recipe(directory, model);
  if (!arguments.pooling.empty()) {
    try {
      recipe.poolings = {pooling_named(arguments.pooling)};
    } catch (const Error& error) {
      throw UsageError(std::string("--") + error.what());
    }
  }
  const bool normalized = !recipe.steps.empty() && recipe.steps.back().normalize;
  if (arguments.normalize && !normalized) {
    EmbeddingStep step;
    step.normalize = true;
    recipe.steps.push_back(step);
  }
  if (arguments.max_length > 0) recipe.max_length = arguments.max_length;
  if (!arguments.prompt_name.empty()) {
    const auto found = recipe.prompts.find(arguments.prompt_name);
    if (found == recipe.prompts.end())
      throw UsageError("--prompt-name: expected a prompt of the model, got " + arguments.prompt_name);
    recipe.prompt = found->second;
  }
  if (arguments.prompt) recipe.prompt = valid_text(*arguments.prompt, "--prompt", globals.quiet);
  return recipe;
}

void print_rows(const Tensor& vectors) {
  const std::vector<float> numbers = vectors.to_vector<float>();
  const auto width = static_cast<std::size_t>(vectors.size(1));
  for (std::size_t i = 0; i < static_cast<std::size_t>(vectors.size(0)); ++i) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(i * width);
    const std::vector<float> row(begin, begin + static_cast<std::ptrdiff_t>(width));
    fmt::print("{}\n", JsonWriter().value(row).text());
  }
}

void run(const EmbedArguments& arguments, const Globals& globals) {
  const std::filesystem::path directory = locate_model(arguments.model),
                              transformer = transformer_directory(directory);
  const auto model = load_model(transformer, weights_dtype(arguments.dtype));
  warn_of_unknown_settings(*model, transformer, globals);
  const auto tokenizer = load_tokenizer(transformer);
  const EmbeddingRecipe recipe = recipe_of(arguments, directory, *model, globals);
  std::vector<Tensor> windows;
  for_each_window(arguments, globals, [&](const std::vector<std::string>& texts, const TaskOptions& options) {
    const Tensor vectors = embed(*model, *tokenizer, texts, recipe, options);
    if (arguments.output.empty()) {
      print_rows(vectors);
    } else {
      windows.push_back(vectors);
    }
  });
  if (arguments.output.empty()) return;
  if (windows.empty())
    throw Error("embed: expected texts to write to " + arguments.output.string() + ", got none");
  write_npy(arguments.output, concat(windows, 0));
  if (!globals.quiet) say("wrote " + arguments.output.string());
}

}  // namespace

void add_embed(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("embed", "Turn texts into vectors");
  auto a = std::make_shared<EmbedArguments>();
  add_task_options(*command, *a, "Texts; without any, the lines of stdin");
  command->add_option(
      "--pooling", a->pooling,
      "From tokens to one vector: mean, cls, last, max, mean_sqrt or weighted_mean (default: what "
      "the model's modules.json says; else mean, and last for models that generate)");
  command->add_flag("--normalize", a->normalize, "Make every vector 1 long");
  command->add_option("--prompt", a->prompt, "A text to put before every text");
  command->add_option("--prompt-name", a->prompt_name, "One of the prompts the model comes with");
  command->add_option("--max-length", a->max_length, "Tokens of a text; what is longer is cut")
      ->transform(whole_number(1));
  command->add_option("--output,-o", a->output,
                      "FILE.npy for all vectors instead of a line of JSON for each");
  command->footer(
      "Examples:\n"
      "  heed embed --model ./all-MiniLM-L6-v2 \"The cat sat on the mat.\"\n"
      "  heed embed --model bert-base-uncased --pooling cls --normalize --output vectors.npy < texts.txt");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
