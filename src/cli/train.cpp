// heed train: from a recipe to a model, with a progress bar.
#include "heed/train/train.h"

#include <fmt/core.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <vector>

#include "cli/cli.h"
#include "cli/models.h"
#include "cli/terminal.h"
#include "heed/io/json.h"
#include "heed/train/recipe.h"

namespace heed::cli {
namespace {

struct TrainArguments {
  std::filesystem::path recipe;
  std::filesystem::path output;
  std::vector<std::string> overrides;
  std::string init;
  bool resume = false;
};

std::atomic<bool> interrupted{false};

// The first Ctrl-C (or SIGTERM) ends the run after its step with a checkpoint; the second ends it at once.
void interrupt(int signal) {
  interrupted = true;
  std::signal(signal, SIG_DFL);
}

std::string scores(const Evaluation& e) {
  std::string text = fmt::format("loss {:.4f}", e.loss);
  if (e.bleu) text += fmt::format("  BLEU {:.2f}", *e.bleu);
  if (e.exact) text += fmt::format("  exact {:.2f} %", *e.exact);
  return text;
}

void add_scores(JsonWriter& json, const char* name, const std::optional<Evaluation>& e) {
  if (!e) return;
  json.key(name)
      .begin_object()
      .field("loss", e->loss)
      .field("bleu", e->bleu)
      .field("exact", e->exact)
      .end_object();
}

void report(const TrainResult& result, const TrainArguments& arguments, bool as_json) {
  if (as_json) {
    JsonWriter json;
    json.begin_object()
        .field("output", arguments.output.string())
        .field("steps", result.steps)
        .field("epochs", result.epochs)
        .field("seconds", result.seconds)
        .field("stopped", result.stopped)
        .field("early_stopped", result.early_stopped)
        .field("averaged", result.averaged);
    add_scores(json, "dev", result.evaluation);
    add_scores(json, "test", result.test);
    fmt::print("{}\n", json.end_object().text());
    return;
  }
  if (result.stopped) {
    fmt::print("stopped after step {}; go on with --resume\n", result.steps);
    return;
  }
  fmt::print("{} steps, {} epochs in {}{}\n", result.steps, result.epochs, clock_time(result.seconds),
             result.early_stopped ? ", stopped early" : "");
  if (result.evaluation) fmt::print("development set: {}\n", scores(*result.evaluation));
  if (result.test) fmt::print("test set:        {}\n", scores(*result.test));
  fmt::print("model: {}\n", arguments.output.string());
}

void set(Recipe& recipe, const std::string& assignment) {
  try {
    apply_override(recipe, assignment);
  } catch (const Error& error) {
    constexpr std::string_view kWhere = "override: ";
    const std::string message = error.what();
    throw UsageError("--set: " + (message.rfind(kWhere, 0) == 0 ? message.substr(kWhere.size()) : message));
  }
}

void run(const TrainArguments& arguments, const Globals& globals) {
  Recipe recipe = load_recipe(arguments.recipe);
  for (const std::string& assignment : arguments.overrides) set(recipe, assignment);
  if (globals.seed) recipe.train.seed = static_cast<std::int64_t>(*globals.seed);
  Progress progress(globals.quiet);
  TrainOptions options;
  options.output = arguments.output;
  options.resume = arguments.resume;
  if (!arguments.init.empty()) options.init = locate_model(arguments.init);
  options.stop = &interrupted;
  options.on_progress = [&](const ProgressEvent& e) {
    progress.show(e.step, e.total,
                  fmt::format("epoch {}  loss {:.4f}  lr {:.2e}  {:.0f} tokens/s  {} left", e.epoch + 1,
                              e.loss, e.lr, e.tokens_per_second, clock_time(e.seconds_left)));
  };
  options.on_evaluation = [&](const EvaluationEvent& e) {
    if (globals.quiet) return;
    progress.finish();
    say(fmt::format("step {}: {}{}", e.step, scores(e.evaluation), e.best ? "  (best)" : ""));
  };
  options.on_message = [&](const std::string& message) {
    if (globals.quiet) return;
    progress.finish();
    say(message);
  };
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  const TrainResult result = train(recipe, options);
  progress.finish();
  report(result, arguments, globals.json);
}

}  // namespace

void add_train(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("train", "Train or fine-tune a model by a recipe");
  auto arguments = std::make_shared<TrainArguments>();
  command->add_option("recipe", arguments->recipe, "The recipe, a TOML file")->required();
  command->add_option("--output,-o", arguments->output, "Directory of the run and its model")->required();
  command->add_option("--set", arguments->overrides, "Override a value of the recipe: section.key=value")
      ->allow_extra_args(false);
  command->add_flag("--resume", arguments->resume, "Go on from the newest checkpoint, if there is one");
  command->add_option("--init", arguments->init, "Start from this model instead of random weights");
  command->footer(
      "Examples:\n"
      "  heed train recipes/reverse.toml --output runs/reverse\n"
      "  heed train recipes/en-fr.toml --output runs/en-fr --set train.lr=1e-3 --set train.epochs=20\n"
      "  heed train recipes/en-fr.toml --output runs/en-fr --resume");
  command->callback([arguments, &globals] { run(*arguments, globals); });
}

}  // namespace heed::cli
