// heed train: from a recipe to a model, with a progress bar.
#include "heed/train/train.h"

#include <fmt/core.h>
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "cli/cli.h"
#include "cli/models.h"
#include "cli/option_values.h"
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
  std::optional<std::int64_t> resume_from;
};

std::atomic<bool> interrupted{false};
std::atomic<int> first_signal{0};
std::atomic<bool> asked_to_end{false};

// The first Ctrl-C, SIGTERM or SIGHUP ends the run after its step with a checkpoint; a second one ends it at
// once. A terminal that closes sends SIGHUP more than once, and others after it: SIGHUP counts as none.
void interrupt(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  interrupted = true;
  if (signal == SIGHUP || !asked_to_end.exchange(true)) return;
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// A signal that was ignored when the command began (nohup, a job in the background) stays ignored.
void handle(int signal) {
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = interrupt;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
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

// Passes over the data, "9.06", or "8" where they are whole.
std::string count_of_passes(double passes) {
  std::string text = fmt::format("{:.2f}", passes);
  if (text.ends_with(".00")) text.resize(text.size() - 3);
  return text;
}

std::string summary(const TrainResult& result, const TrainArguments& arguments) {
  if (result.stopped) return fmt::format("stopped after step {}; go on with --resume\n", result.steps);
  std::string text =
      fmt::format("{} steps, {} epochs in {}{}\n", result.steps, count_of_passes(result.passes),
                  clock_time(result.seconds), result.early_stopped ? ", stopped early" : "");
  if (result.evaluation) text += fmt::format("development set: {}\n", scores(*result.evaluation));
  if (result.test) text += fmt::format("test set:        {}\n", scores(*result.test));
  return text + fmt::format("model: {}\n", arguments.output.string());
}

std::string summary_json(const TrainResult& result, const TrainArguments& arguments) {
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
  return json.end_object().text() + "\n";
}

// By the C library, which throws nothing: a run that was stopped because its terminal is gone has nobody to
// report to, and its exit status is to say so. What stdout does not take is found at the end of the command.
void report(const TrainResult& result, const TrainArguments& arguments, bool as_json) {
  std::fputs((as_json ? summary_json(result, arguments) : summary(result, arguments)).c_str(), stdout);
  if (!result.stopped) return;
  std::fflush(stdout);
  throw Stopped{first_signal};
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
  options.resume_from = arguments.resume_from;
  if (!arguments.init.empty()) options.init = locate_model(arguments.init);
  options.stop = &interrupted;
  options.on_progress = [&](const ProgressEvent& e) {
    progress.show(e.step, e.total,
                  fmt::format("epoch {:.2f}  loss {:.4f}  lr {:.2e}  {:.0f} tokens/s  {} left", e.passes,
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
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) handle(signal);
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
  command
      ->add_option("--resume-from", arguments->resume_from,
                   "Go on from the checkpoint of this step, and remove later ones")
      ->transform(whole_number(0));
  command->add_option("--init", arguments->init, "Start from this model instead of random weights");
  command->footer(
      "Examples:\n"
      "  heed train recipes/reverse.toml --output runs/reverse\n"
      "  heed train recipes/en-fr.toml --output runs/en-fr --set train.lr=1e-3 --set train.epochs=20\n"
      "  heed train recipes/en-fr.toml --output runs/en-fr --resume");
  command->callback([arguments, &globals] { run(*arguments, globals); });
}

}  // namespace heed::cli
