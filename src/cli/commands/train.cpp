// heed train: trains a model from a recipe, with a progress bar.
#include "heed/train/train.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/models.h"
#include "cli/options/option_group.h"
#include "cli/terminal/exit.h"
#include "cli/terminal/processes.h"
#include "cli/terminal/terminal.h"
#include "heed/analyses/attend.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "heed/models/kind.h"
#include "heed/plot/chart.h"
#include "heed/train/recipe.h"
#include "heed/train/training_task.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

struct TrainArguments {
  std::filesystem::path recipe;
  std::filesystem::path output, maps;
  std::vector<std::string> overrides;
  std::string init;
  bool resume = false, force = false, dry_run = false, find_lr = false;
  std::optional<std::int64_t> resume_from;
};

constexpr std::size_t kMostTexts = 8, kMostTokens = 64;
constexpr std::size_t kPageBytes = 40'000'000;

// heed train --maps: attention of chosen texts while a model learns, as a page with a slider over the
// steps. Keeps what was recorded in OUTPUT/maps/STEP.json, and writes OUTPUT/maps.html of all of it after
// each step. Threads: one at a time.
class TrainingMaps {
 public:
  // Reads the texts: one a line; for encoder-decoders a source, a tab and a target. Throws Error naming the
  // file, unless there are 1 to 8.
  TrainingMaps(const fs::path& texts, fs::path output, bool quiet);

  // Records the model as it is now, and forgets later steps (of a run that was resumed).
  void record(std::int64_t step, const TrainingTask& task);
  // The loss of the development set at a step, which the page shows.
  void set_loss(std::int64_t step, double loss) { losses_[step] = loss; }

 private:
  struct Text {
    std::string source;
    std::optional<std::string> target;
  };
  AttentionPicture picture_of(const LoadedModel& model, const std::string& text,
                              const std::optional<std::string>& target) const;
  void write_page() const;

  fs::path output_;
  std::vector<Text> texts_;
  std::map<std::int64_t, double> losses_;
};

// The steps that were recorded, in order.
std::map<std::int64_t, fs::path> recorded_steps(const fs::path& folder) {
  std::map<std::int64_t, fs::path> steps;
  if (!fs::exists(folder)) return steps;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    std::int64_t step = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), step);
    if (failure == std::errc() && end == name.data() + name.size() && entry.path().extension() == ".json")
      steps.emplace(step, entry.path());
  }
  return steps;
}

TrainingMaps::TrainingMaps(const fs::path& texts, fs::path output, bool quiet) : output_(std::move(output)) {
  for (const std::string& line : read_lines(texts.string(), quiet)) {
    if (line.empty()) continue;
    const std::size_t tab = line.find('\t');
    texts_.push_back(
        {line.substr(0, tab), tab == std::string::npos ? std::nullopt : std::optional(line.substr(tab + 1))});
  }
  if (texts_.empty() || texts_.size() > kMostTexts)
    throw Error(fmt::format("{}: expected 1 to {} texts, one a line, got {}", texts.string(), kMostTexts,
                            texts_.size()));
}

AttentionPicture TrainingMaps::picture_of(const LoadedModel& model, const std::string& text,
                                          const std::optional<std::string>& target) const {
  Subject subject = subject_of(model, {.given = text, .target = target});
  for (const auto& [kind, tokens] : subject.tokens) {
    if (std::max(tokens.queries.size(), tokens.keys.size()) > kMostTokens)
      throw Error(fmt::format("{}: expected texts of at most {} tokens, got one of {}: {}", output_.string(),
                              kMostTokens, std::max(tokens.queries.size(), tokens.keys.size()), text));
  }
  const NoGradients guard;
  AttendOptions options{.show = {"weights"}, .most_vectors = 0};
  options.ablate = false;
  return attend(parts_of(model), std::move(subject), options).picture;
}

void TrainingMaps::record(std::int64_t step, const TrainingTask& task) {
  const fs::path folder = output_ / "maps";
  fs::create_directories(folder);
  AtomicDirectory model_folder(folder / "model");  // which never appears under this name
  task.save(model_folder.path(), DType::f32);
  const LoadedModel model = load(model_folder.path().string(), {.head = true});
  const bool pairs = traits_of(model.model()).is(ModelKind::encoder_decoder);
  std::vector<std::string> pictures;
  for (const Text& text : texts_) {
    if (pairs != text.target.has_value())
      throw Error(fmt::format("--maps: expected {} on each line for {}, got \"{}\"",
                              pairs ? "a source, a tab and a target" : "one text", model.kind(),
                              text.source));
    AttentionPicture picture = picture_of(model, text.source, text.target);
    picture.model.name = fs::absolute(output_).lexically_normal().filename().string();
    pictures.push_back(attention_frame(picture));
  }
  for (const auto& [other, file] : recorded_steps(folder)) {
    if (other > step) fs::remove(file);
  }
  const auto loss = losses_.find(step);
  write_file(
      folder / fmt::format("{:08}.json", step),
      training_frame(step, loss == losses_.end() ? std::nullopt : std::optional(loss->second), pictures));
  write_page();
}

void TrainingMaps::write_page() const {
  std::vector<std::string> frames;
  std::size_t bytes = 0;
  for (const auto& [step, file] : recorded_steps(output_ / "maps")) {
    frames.push_back(read_file(file));
    bytes += frames.back().size();
  }
  while (bytes > kPageBytes && frames.size() > 2) {  // every second one, and the last
    std::vector<std::string> kept;
    bytes = 0;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (i % 2 == 1 && i + 1 < frames.size()) continue;
      bytes += frames[i].size();
      kept.push_back(std::move(frames[i]));
    }
    frames = std::move(kept);
  }
  write_file(output_ / "maps.html", training_html(frames));
}

std::string named_values(const std::vector<Metric>& metrics) {
  std::string text;
  for (const Metric& metric : metrics) text += fmt::format("  {} {:.2f}", metric.name, metric.value);
  return text;
}

std::string scores(const Evaluation& e) {
  return fmt::format("loss {:.4f}", e.loss) + named_values(e.metrics);
}

void add_scores(JsonWriter& json, const char* name, const std::optional<Evaluation>& e) {
  if (!e) return;
  json.key(name).begin_object().field("loss", e->loss);
  for (const Metric& metric : e->metrics) json.field(metric.name, metric.value);
  json.end_object();
}

// Formats passes over the data as "9.06", or as "8" for whole numbers.
std::string count_of_passes(double passes) {
  std::string text = fmt::format("{:.2f}", passes);
  if (text.ends_with(".00")) text.resize(text.size() - 3);
  return text;
}

std::string summary(const TrainResult& result, const TrainArguments& arguments) {
  const std::string passes = count_of_passes(result.passes);
  std::string text = fmt::format("{} step{}, {} epoch{} in {}{}\n", result.steps,
                                 result.steps == 1 ? "" : "s", passes, passes == "1" ? "" : "s",
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

// Uses the C library, which does not throw: after SIGHUP the terminal may be gone, and the exit status must
// still be that of the signal. main reports a failure of stdout.
void report(const TrainResult& result, const TrainArguments& arguments, bool as_json) {
  if (as_json) {
    print_stdout("{}", summary_json(result, arguments));
  } else if (!result.stopped) {
    print_stdout("{}", summary(result, arguments));
  }
  if (!result.stopped) return;
  std::fprintf(stderr, "stopped after step %lld; continue with --resume\n",
               static_cast<long long>(result.steps));
  std::fflush(stdout);
  throw Canceled();
}

std::string dry_run_text(const DryRun& run, const TerminalStyle& style) {
  const double seconds = run.seconds_per_step * static_cast<double>(run.steps);
  return report_text(data_report(run.data), style) +
         fmt::format(
             "{} trained parameters, {} batches in an epoch; reading the data and making the model took "
             "{:.1f} s\n"
             "{} steps of {:.3g} s, each with about {} {}: {} in all, without evaluations and checkpoints\n"
             "peak memory: {:.2f} GiB\n",
             run.trained, run.batches_per_epoch, run.data_seconds, run.steps, run.seconds_per_step,
             run.targets_per_step, run.unit, clock_time(seconds),
             static_cast<double>(run.peak_memory) / (1 << 30));
}

std::string dry_run_json(const DryRun& run) {
  ReportValue json;
  json.add("trained_parameters", run.trained)
      .add("batches_per_epoch", run.batches_per_epoch)
      .add("steps", run.steps)
      .add("seconds_per_step", run.seconds_per_step)
      .add("targets_per_step", run.targets_per_step)
      .add("unit", run.unit)
      .add("seconds", run.seconds_per_step * static_cast<double>(run.steps))
      .add("peak_memory", run.peak_memory)
      .add("data_seconds", run.data_seconds)
      .add("data", data_report(run.data).found);
  return report_json({.found = json});
}

std::string lr_range_text(const LrRange& range, const TerminalStyle& style) {
  ReportTable table{.title = "learning rates", .rows_title = "rate"};
  const std::size_t stride = std::max<std::size_t>(1, range.points.size() / 20);
  for (std::size_t i = stride - 1; i < range.points.size(); i += stride) {
    const std::string row = fmt::format("{:.2e}", range.points[i].lr);
    table.cell(row, "loss").text = fmt::format("{:.4f}", range.points[i].loss);
    table.cell(row, "smoothed").text = fmt::format("{:.4f}", range.points[i].smoothed);
  }
  table.fill_up();
  table.legend = fmt::format("the smoothed loss is lowest at {:.2e}; a tenth of that: train.lr = {:.1e}",
                             range.lowest, range.suggested);
  return table_text(table, style);
}

std::string lr_range_json(const LrRange& range) {
  ReportValue json, points;
  for (const LrRange::Point& point : range.points) {
    ReportValue one;
    points.push(one.add("lr", point.lr).add("loss", point.loss).add("smoothed", point.smoothed));
  }
  return report_json(
      {.found = json.add("suggested", range.suggested).add("lowest", range.lowest).add("points", points)});
}

// A figure of the two losses, of which one that has diverged leaves room for the others.
std::string lr_range_svg(const LrRange& range) {
  LineChart chart{.title = fmt::format("learning rates: {:.1e} is suggested", range.suggested),
                  .x_label = "learning rate",
                  .y_label = "loss per target",
                  .log_x = true};
  ChartSeries loss{"loss", {}, {}}, smoothed{"smoothed", {}, {}};
  for (const LrRange::Point& point : range.points) {
    loss.x.push_back(point.lr), loss.y.push_back(point.loss);
    smoothed.x.push_back(point.lr), smoothed.y.push_back(point.smoothed);
  }
  chart.series = {std::move(loss), std::move(smoothed)};
  return line_chart_svg(chart);
}

void run(const TrainArguments& arguments, const Globals& globals) {
  if (arguments.force && !arguments.resume && !arguments.resume_from)
    throw UsageError("--force: needs --resume or --resume-from");
  if (arguments.dry_run && (arguments.resume || arguments.resume_from))
    throw UsageError("--dry-run: expected a new run, got one to resume");
  if (arguments.find_lr && (arguments.dry_run || arguments.resume || arguments.resume_from))
    throw UsageError("--find-lr: expected neither --dry-run nor a run to resume");
  if (arguments.find_lr && !arguments.output.empty() && arguments.output.extension() != ".svg")
    throw UsageError("--output: expected a figure, FILE.svg, beside --find-lr, which trains no model");
  if (arguments.output.empty() && !arguments.dry_run && !arguments.find_lr)
    throw UsageError("train: missing --output");
  Recipe recipe = load_recipe(locate_recipe(arguments.recipe), arguments.overrides);
  for (const std::string& assignment : arguments.overrides) set_in_recipe(recipe, assignment);
  if (globals.seed) recipe.train.seed = static_cast<std::int64_t>(*globals.seed);
  Progress progress(globals.quiet);
  TrainOptions options;
  options.output = arguments.output;
  options.resume = arguments.resume;
  options.resume_from = arguments.resume_from;
  options.force = arguments.force;
  if (!arguments.init.empty()) options.init = path_of_model(arguments.init);
  options.stop = &stop_flag();
  options.on_progress = [&](const ProgressEvent& e) {
    progress.show(
        e.step, e.total,
        fmt::format("epoch {:.2f}  loss {:.4f}  lr {:.2e}  {:.0f} {}/s  {} left{}", e.passes, e.loss, e.lr,
                    e.per_second, e.unit, clock_time(e.seconds_left), named_values(e.metrics)));
  };
  std::optional<TrainingMaps> maps;
  if (!arguments.maps.empty() && !arguments.dry_run && !arguments.find_lr) {
    maps.emplace(arguments.maps, arguments.output, globals.quiet);
    options.on_checkpoint = [&](std::int64_t step, const TrainingTask& task) { maps->record(step, task); };
  }
  options.on_evaluation = [&](const EvaluationEvent& e) {
    if (maps) maps->set_loss(e.step, e.evaluation.loss);
    if (globals.quiet) return;
    progress.finish();
    print_stderr(fmt::format("step {}: {}{}", e.step, scores(e.evaluation), e.best ? "  (best)" : ""));
  };
  options.on_message = [&](const std::string& message) {
    if (globals.quiet) return;
    progress.finish();
    print_stderr(message);
  };
  options.processes = &processes();
  const bool first = processes().is_first();
  if (!first) options.on_progress = nullptr, options.on_evaluation = nullptr;
  if (arguments.dry_run) {
    const DryRun result = dry_run(recipe, options);
    leave_processes();
    if (first)
      print_stdout("{}", globals.json ? dry_run_json(result) : dry_run_text(result, terminal_style(0)));
    return;
  }
  if (arguments.find_lr) {
    const LrRange range = find_lr(recipe, options);
    leave_processes();
    if (!first) return;
    print_stdout("{}", globals.json ? lr_range_json(range) : lr_range_text(range, terminal_style(0)));
    if (!arguments.output.empty()) write_file(arguments.output, lr_range_svg(range));
    return;
  }
  const TrainResult result = train(recipe, options);
  progress.finish();
  leave_processes();
  if (first) {
    report(result, arguments, globals.json);
  } else if (result.stopped) {
    throw Canceled();
  }
}

}  // namespace

void add_train(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("train", "Train or fine-tune a model from a recipe");
  auto arguments = std::make_shared<TrainArguments>();
  command
      ->add_option("recipe", arguments->recipe,
                   "The recipe: a TOML file, or the name of one that comes with heed")
      ->required()
      ->type_name("FILE");
  OptionGroup input(*command, "Input"), output(*command, "Output");
  input.value("--set", arguments->overrides, "SECTION.KEY=VALUE",
              "Override a value of the recipe, e.g. train.lr=3e-4");
  input.value("--init", arguments->init, "MODEL", "Start from this model instead of random weights");
  input.flag("--resume", arguments->resume, "Continue from the newest checkpoint, if there is one");
  input
      .value("--resume-from", arguments->resume_from, "STEP",
             "Continue from the checkpoint of this step, and remove later ones")
      ->transform(whole_number(0));
  input.flag("--force", arguments->force, "Resume although the recipe or the data changed, and say what did");
  command
      ->add_flag_callback(
          "--list-keys",
          [] {
            print_stdout("{}", recipe_reference());
            throw CLI::Success();
          },
          "List every key of a recipe, with its default, and exit")
      ->trigger_on_parse()
      ->group("Input");
  output.flag("--dry-run", arguments->dry_run,
              "Check the recipe and the data, run some steps, print what the run would take, write nothing");
  output.flag(
      "--find-lr", arguments->find_lr,
      "Raise the learning rate in up to 100 steps until the loss rises, print a table and a suggestion; "
      "with --output FILE.svg also a figure");
  output.value("--output,-o", arguments->output, "DIR", "Directory for the model, checkpoints and logs");
  output.value(
      "--maps", arguments->maps, "FILE",
      "Texts, one a line (a source, a tab and a target for encoder-decoders), whose attention at each "
      "checkpoint DIR/maps.html shows");
  command->footer(
      "Examples:\n"
      "  heed train reverse --output runs/reverse\n"
      "  heed train reverse --dry-run\n"
      "  heed train en-fr --find-lr --output lr.svg\n"
      "  heed train en-fr --output runs/en-fr --set train.lr=1e-3 --set train.epochs=20\n"
      "  heed train en-fr --output runs/en-fr --resume\n"
      "  heed train en-fr --output runs/en-fr --resume --force --set train.lr=1e-4\n"
      "  HEED_DATA=data heed train shakespeare-char-cpu --output runs/shakespeare\n"
      "  heed train en-fr --output runs/en-fr --maps sentences.tsv\n"
      "  mpirun -n 4 heed train en-fr --output runs/en-fr");
  command->callback([arguments, &globals] { run(*arguments, globals); });
}

}  // namespace heed::cli
