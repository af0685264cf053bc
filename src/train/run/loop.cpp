// The training loop. One step: sum the losses of `accumulate` micro-batches, with one backward pass each;
// divide the gradient by the number of target tokens and clip it; update the parameters; write one line to
// the log. Then, if due: an evaluation, a checkpoint, the end of the run. Of several processes, each sums the
// losses of its shares, the gradients of all are added up, and all decide alike; the first one alone writes.
#include "heed/train/train.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "heed/autograd.h"
#include "heed/buffer.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/nn/weight.h"
#include "heed/ops/matmul.h"
#include "heed/train/adamw.h"
#include "heed/train/checkpoint.h"
#include "heed/train/schedule.h"
#include "train/optimizer/gradient_buckets.h"
#include "train/optimizer/layer_factors.h"
#include "train/optimizer/master_weights.h"
#include "train/run/run.h"
#include "train/run/run_log.h"
#include "train/run/run_report.h"
#include "train/tasks/predictions.h"

namespace heed {
namespace {

// Initialization uses the first random streams of the same seed.
constexpr std::uint64_t kFirstDropoutStream = std::uint64_t{1} << 32;

// "12 minutes", "3.4 hours"; empty for less than a minute.
std::string duration(double seconds) {
  constexpr double kMinute = 60, kHour = 3600;
  if (seconds < kMinute) return "";
  return seconds < 2 * kHour ? fmt::format("{:.0f} minutes", std::ceil(seconds / kMinute))
                             : fmt::format("{:.1f} hours", seconds / kHour);
}

// Operations a second of a matrix product, which a few milliseconds show.
double product_speed() {
  constexpr std::int64_t kSide = 512;
  const NoGradients off;
  const Tensor x = Tensor::full({kSide, kSide}, 0.5);
  static_cast<void>(matmul(x, x));  // allocates, and wakes the threads
  const Stopwatch watch;
  static_cast<void>(matmul(x, x));
  return 2.0 * kSide * kSide * kSide / std::max(watch.seconds(), 1e-6);
}

// The most memory in bytes that this process has had.
std::int64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

// The loss or a gradient has overflowed.
class NotFinite : public Error {
 public:
  using Error::Error;
};

class Loop {
 public:
  Loop(TrainingTask& task, const Recipe& recipe, const TrainOptions& options, const RunFolder& folder)
      : task_(task),
        recipe_(recipe),
        options_(options),
        folder_(folder),
        world_(processes_of(options)),
        generator_(dropout_seed(recipe, world_)),
        total_(total_steps(recipe, task)),
        evaluation_steps_(steps_between_evaluations(recipe, task)),
        schedule_{schedule_from_name(recipe.train.schedule), recipe.train.lr, recipe.train.min_lr,
                  warmup_steps(recipe.train.warmup, total_), total_},
        kept_(options.output, recipe.checkpoint, state_) {}

  // What the whole run would take, by some steps of it: the first also allocates memory, and so do later ones
  // for batches of other shapes. Writes nothing.
  DryRun measure() {
    check_same_training(world_, task_);
    warn_of_size();
    make_optimizer();
    DryRun result;
    for (const Parameter& p : task_.parameters()) result.trained += p.tensor.numel();
    generator_.seek(kFirstDropoutStream);
    result.steps = total_;
    result.batches_per_epoch = task_.batches_per_epoch();
    step(schedule_.at(1));
    const std::int64_t before = state_.tokens;
    const Stopwatch watch;
    constexpr std::int64_t kFewest = 2, kMost = 19;
    constexpr double kSeconds = 30;
    std::int64_t steps = 0;
    for (; steps < kFewest || (steps < kMost && watch.seconds() < kSeconds); ++steps) step(schedule_.at(2));
    result.seconds_per_step = watch.seconds() / static_cast<double>(steps);
    result.targets_per_step = (state_.tokens - before) / steps;
    result.unit = task_.unit();
    result.peak_memory = peak_memory();
    return result;
  }

  // Smith 2017, "Cyclical learning rates for training neural networks", section 3.3: the rate rises by a
  // factor in each step until the loss does.
  LrRange find_lr() {
    constexpr std::int64_t kSteps = 100, kFewest = 10;
    constexpr double kFirst = 1e-7, kLast = 1, kMemory = 0.9, kDiverged = 4;
    check_same_training(world_, task_);
    make_optimizer();
    generator_.seek(kFirstDropoutStream);
    LrRange range;
    double mean = 0, best = HUGE_VAL;
    for (std::int64_t i = 0; i < kSteps && !asked_to_stop(); ++i) {
      const double lr = kFirst * std::pow(kLast / kFirst, static_cast<double>(i) / (kSteps - 1));
      double loss = 0;
      try {
        loss = step(lr);
      } catch (const NotFinite&) {
        break;
      }
      mean = kMemory * mean + (1 - kMemory) * loss;
      const double smoothed = mean / (1 - std::pow(kMemory, static_cast<double>(i + 1)));
      range.points.push_back({lr, loss, smoothed});
      if (smoothed < best) best = smoothed, range.lowest = lr;
      if (i >= kFewest && smoothed > kDiverged * best) break;
    }
    range.suggested = range.lowest / 10;
    return range;
  }

  TrainResult run() {
    start();
    if (state_.step > 0 && (state_.step >= total_ || out_of_patience()))
      message("the run is already finished: no steps are left");
    if (state_.step == 0 && world_.is_first() && options_.on_checkpoint) options_.on_checkpoint(0, task_);
    TrainResult result;
    while (state_.step < total_ && !out_of_patience()) {
      if (asked_to_stop()) {
        if (last_saved_ != state_.step) save();
        result.stopped = true;
        break;
      }
      step(schedule_.at(state_.step + 1));
      const bool improved = evaluation_due() && evaluate();
      const bool last = state_.step == total_ || out_of_patience();
      if (improved || last || kept_.is_scheduled(state_.step)) save();
    }
    if (!result.stopped) finish(result);
    result.steps = state_.step;
    result.epochs = state_.position.epoch;
    result.passes = passes();
    result.seconds = state_.seconds;
    result.early_stopped = out_of_patience();
    return result;
  }

 private:
  void message(const std::string& text) const {
    if (world_.is_first() && options_.on_message) options_.on_message(text);
  }
  bool asked_to_stop() {
    const bool here = options_.stop != nullptr && options_.stop->load();
    return world_.sum({here ? 1.0 : 0.0})[0] > 0;
  }
  double passes() const {
    const double batches = static_cast<double>(task_.batches_per_epoch());
    // An epoch may have one batch more than the first epoch, whose number of batches is used here.
    const double part = std::min(0.995, static_cast<double>(state_.position.batch) / batches);
    return static_cast<double>(state_.position.epoch) + part;
  }
  bool evaluates() const { return evaluation_steps_ > 0 && task_.evaluates(); }
  bool evaluation_due() const {
    return evaluates() && (state_.step % evaluation_steps_ == 0 || state_.step == total_);
  }
  bool out_of_patience() const {
    return recipe_.eval.patience > 0 && state_.not_better >= recipe_.eval.patience;
  }
  std::size_t best_kept() const {
    return recipe_.checkpoint.average_of == "best" ? static_cast<std::size_t>(recipe_.checkpoint.average) : 1;
  }

  void start() {
    check_same_training(world_, task_);
    generator_.seek(kFirstDropoutStream);
    const bool resumes = !folder_.checkpoint().empty();
    if (resumes) {
      resume(folder_.checkpoint());
    } else {
      if (options_.resume) message("warning: no run to resume: starting anew");
      state_.position = task_.position();
      state_.generator_position = generator_.position();
      state_.metric = recipe_.eval.metric;
      state_.warmup = schedule_.warmup;
    }
    make_optimizer();
    if (resumes) {
      load_checkpoint_optimizer(folder_.checkpoint(), *optimizer_);
      world_.barrier();                                 // the others have looked at what is pruned
      if (world_.is_first()) kept_.prune(last_saved_);  // later ones, and leftovers of a run that was killed
    }
    if (schedule_.warmup > total_) {
      message(
          fmt::format("warning: train.warmup: {} steps of warm-up in a run of {}: the learning rate only "
                      "rises to {:.3g}, not to train.lr, {:.3g}",
                      schedule_.warmup, total_, schedule_.at(total_), schedule_.lr));
    }
    if (evaluation_steps_ > 0 && !task_.evaluates())
      message("no development set, so no evaluations (data.dev, data.dev_size or data.dev_share gives one)");
    if (!resumes) warn_of_size();
    if (!resumes) warn_of_rate();
    if (!resumes && recipe_.lora.rank == 0) guess();
    state_.recipe = recipe_values(recipe_);
    state_.fingerprint = task_.fingerprint();
    state_.files = checksums_of_data(recipe_);
    if (world_.is_first()) log_.emplace(options_.output / "log.jsonl", state_.step);
    if (log_ && log_->first_missing())
      message(fmt::format("warning: {}: lines are missing from step {} on: curves and tables lack them",
                          (options_.output / "log.jsonl").string(), *log_->first_missing()));
    if (world_.size() > 1) message(memory_report(world_, task_.parameters(), *optimizer_));
    earlier_seconds_ = state_.seconds;
    if (state_.step == 0) save();
  }

  // A new model far larger than its data: the default sizes of a family are those of its first large model.
  void warn_of_size() const {
    if (!options_.init.empty()) return;
    constexpr double kLarge = 5e6, kMostPerToken = 100;
    double parameters = 0;
    for (const Parameter& p : task_.parameters()) parameters += static_cast<double>(p.tensor.numel());
    const double tokens =
        static_cast<double>(task_.batches_per_epoch()) * static_cast<double>(recipe_.train.batch_tokens);
    if (parameters < kLarge || parameters <= kMostPerToken * tokens) return;
    message(fmt::format(
        "warning: {:.0f} parameters for at most {:.0f} tokens of data: steps are slow, and the model "
        "learns the data by heart (give smaller sizes in [model], or start from a model with --init)",
        parameters, tokens));
  }

  // The rates of recipes are for new models, whose weights have far to go.
  void warn_of_rate() const {
    constexpr double kHigh = 2e-4, kUsual = 1e-4;
    const auto given = recipe_.given.find("train.lr");
    const bool chosen = given != recipe_.given.end() && given->second == kRecipeOverride;
    if (options_.init.empty() || recipe_.lora.rank > 0 || recipe_.train.lr <= kHigh || chosen) return;
    message(
        fmt::format("warning: train.lr is {:g}, and the run starts from a trained model, which such a high "
                    "rate makes forget: {:g} or less is usual (--set train.lr={:g})",
                    recipe_.train.lr, kUsual, kUsual));
  }

  // How long a run with long steps probably takes, before the first: by the operations of a step, six for
  // each parameter and token (Kaplan et al. 2020), and the speed of a matrix product here.
  void guess() const {
    constexpr double kOperations = 6, kQuick = 1e10, kSoon = 10;  // operations, seconds
    double parameters = 0;
    for (const Parameter& p : task_.parameters()) parameters += static_cast<double>(p.tensor.numel());
    const double tokens = static_cast<double>(recipe_.train.batch_tokens * recipe_.train.accumulate);
    const double operations = kOperations * parameters * tokens, steps = static_cast<double>(total_);
    if (operations < kQuick) return;
    const double seconds = operations / product_speed();
    if (seconds < kSoon) return;  // estimate() measures them soon
    if (const std::string time = duration(seconds * steps); !time.empty())
      message(
          fmt::format("{} steps of {:.2g} s each, or {} in all, at a rough guess", total_, seconds, time));
  }

  // The same once some seconds of steps were measured.
  void estimate(std::int64_t step, double step_seconds) {
    constexpr double kMeasured = 3;
    const auto measured = static_cast<double>(steps_here_ - 1);
    if (estimated_ || measured < 1 || measured * step_seconds < kMeasured) return;
    estimated_ = true;
    if (const std::string time = duration(step_seconds * static_cast<double>(total_ - step)); !time.empty())
      message(fmt::format("a step takes {:.2g} s; {} more take about {}", step_seconds, total_ - step, time));
  }

  // The mean of this run's steps with what is between them, without the first, which also allocates memory.
  double mean_seconds(double step_seconds) {
    const double now = run_watch_.seconds();
    if (++steps_here_ > 1) return (now - after_first_) / static_cast<double>(steps_here_ - 1);
    after_first_ = now;
    return step_seconds;
  }

  // From the weights in f32, which the optimizer may take over.
  void make_optimizer() {
    share_weights(world_, task_.parameters());
    AdamWOptions options = adamw_options(recipe_);
    options.lr_factors = layer_factors(task_.parameters(), recipe_.train.layer_decay);
    gradients_.emplace(task_.parameters(), world_, recipe_.train.shard_optimizer, options.bf16_weights);
    optimizer_.emplace(task_.parameters(), options, gradients_->own());
  }

  void resume(const std::filesystem::path& checkpoint) {
    state_ = resumed_state(checkpoint, task_, recipe_, options_, schedule_.warmup);
    load_checkpoint_weights(checkpoint, task_.parameters());
    task_.seek(state_.position);
    generator_.seek(state_.generator_position);
    schedule_.warmup = state_.warmup;
    if (state_.ranked.size() > best_kept()) state_.ranked.resize(best_kept());
    keep_ranked();
    last_saved_ = state_.step;
    message(fmt::format("resuming at step {} from {}", state_.step, checkpoint.string()));
  }

  // Keeps the best steps whose checkpoints exist. If a later checkpoint was removed, an earlier one that
  // ranked among the best before it may already have been deleted.
  void keep_ranked() {
    const std::vector<std::int64_t> lost = kept_.not_found(kept_.ranked_steps());
    if (lost.empty()) return;
    if (!options_.resume_from) kept_.require(kept_.ranked_steps());
    std::erase_if(state_.ranked, [&](const RankedStep& r) {
      return std::find(lost.begin(), lost.end(), r.step) != lost.end();
    });
    message(fmt::format("without the checkpoints of steps {}, which were among the best and are gone",
                        fmt::join(lost, ", ")));
  }

  [[noreturn]] void not_finite(const char* what, double value, double lr) const {
    const std::vector<std::int64_t> steps = checkpoint_steps(options_.output);
    const std::string kept = steps.empty() ? "no checkpoint yet"
                                           : "the last good checkpoint is " +
                                                 checkpoint_path(options_.output, steps.back()).string();
    throw NotFinite(
        fmt::format("train: expected a finite {} at step {}, got {} at a learning rate of {:.3g} (lower "
                    "train.lr, lengthen train.warmup or set train.clip_norm; {})",
                    what, state_.step + 1, value, lr, kept));
  }

  // Returns the loss per target.
  double step(double lr) {
    const Stopwatch watch;
    const std::int64_t epoch = task_.position().epoch;
    const Traffic before = world_.traffic();
    const std::vector<std::string> names = task_.step_metrics();
    std::vector<double> metrics(names.size());
    double loss = 0;
    std::int64_t tokens = 0, read = 0;
    double weight = 0;
    std::optional<MixedPrecision> mixed;
    if (recipe_.train.precision == "bf16") mixed.emplace();
    for (std::int64_t i = 0; i < recipe_.train.accumulate; ++i) {
      Context context{.training = true,
                      .generator = &generator_,
                      .gradient_checkpointing = recipe_.train.gradient_checkpointing};
      const AdapterDropout adapters(context);
      const SummedLoss micro = task_.next_loss(context);
      if (micro.sum.defined()) loss += micro.sum.item();
      tokens += micro.tokens;
      read += micro.read.value_or(micro.tokens);
      weight += micro.weight.value_or(static_cast<double>(micro.tokens));
      for (std::size_t m = 0; m < micro.metrics.size(); ++m) metrics[m] += micro.metrics[m];
      if (!std::isfinite(loss)) not_finite("loss", loss / weight, lr);
      gradients_->backward(micro.sum, i + 1 == recipe_.train.accumulate);
    }
    const Stopwatch wait;
    gradients_->finish();
    add_up(loss, tokens, read, weight, metrics);
    const double waited = wait.seconds();
    const double mean = weight > 0 ? 1.0 / weight : 0;  // examples of weight 0 teach nothing
    const double norm = gradients_->norm() * mean;
    if (!std::isfinite(norm)) not_finite("gradient", norm, lr);
    optimizer_->step(lr, mean * clip_scale(norm, recipe_.train.clip_norm));
    optimizer_->zero_grad();
    gradients_->share_parameters();

    ++state_.step;
    state_.position = task_.position();
    state_.generator_position = generator_.position();
    state_.tokens += tokens;
    state_.seconds = earlier_seconds_ + run_watch_.seconds();
    report({.step = state_.step,
            .epoch = epoch,
            .loss = loss * mean,
            .lr = lr,
            .grad_norm = norm,
            .targets = tokens,
            .per_second = static_cast<double>(read) / watch.seconds(),
            .seconds = state_.seconds,
            .communication = communication_since(before, waited),
            .metrics = means(names, metrics, tokens)},
           static_cast<double>(read), watch.seconds());
    return loss * mean;
  }

  static std::vector<Metric> means(const std::vector<std::string>& names, const std::vector<double>& sums,
                                   std::int64_t targets) {
    std::vector<Metric> result;
    for (std::size_t i = 0; i < names.size(); ++i)
      result.push_back({names[i], sums[i] / static_cast<double>(targets)});
    return result;
  }

  // Adds up the step's loss, targets and metrics of all processes. Random streams go on where the first
  // process is, which has rows of every batch.
  void add_up(double& loss, std::int64_t& tokens, std::int64_t& read, double& weight,
              std::vector<double>& metrics) {
    const double streams = world_.is_first() ? static_cast<double>(generator_.position()) : 0.0;
    std::vector<double> all{loss, static_cast<double>(tokens), streams, weight, static_cast<double>(read)};
    all.insert(all.end(), metrics.begin(), metrics.end());
    const std::vector<double> total = world_.sum(all);
    std::copy(total.begin() + 5, total.end(), metrics.begin());
    loss = total[0];
    tokens = static_cast<std::int64_t>(total[1]);
    weight = total[3];
    read = static_cast<std::int64_t>(total[4]);
    generator_.seek(static_cast<std::uint64_t>(total[2]));
    if (tokens > 0) return;
    throw Error(
        fmt::format("train: expected targets in every step, got none in step {} (raise train.batch_tokens; "
                    "with task.cross_documents = false, documents of single tokens have none, and with "
                    "task.answers_after, rows without an answer)",
                    state_.step + 1));
  }

  std::optional<CommunicationRecord> communication_since(const Traffic& before, double waited) const {
    if (world_.size() == 1) return std::nullopt;
    const Traffic now = world_.traffic();
    return CommunicationRecord{now.bytes_sent - before.bytes_sent, now.seconds - before.seconds, waited};
  }

  void report(const StepRecord& record, double read, double step_seconds) {
    if (!log_) return;  // not the first process, or a dry run
    log_->add(record, task_.unit());
    const double mean = mean_seconds(step_seconds);
    estimate(record.step, mean);
    constexpr double kMemory = 0.95;  // smoothing factor of the displayed rate
    const double weight = recent_read_ == 0 ? 0 : kMemory;
    recent_read_ = weight * recent_read_ + (1 - weight) * read;
    recent_seconds_ = weight * recent_seconds_ + (1 - weight) * step_seconds;
    if (!options_.on_progress) return;
    options_.on_progress({.step = record.step,
                          .total = total_,
                          .epoch = record.epoch,
                          .passes = passes(),
                          .loss = record.loss,
                          .lr = record.lr,
                          .per_second = recent_read_ / recent_seconds_,
                          .unit = task_.unit(),
                          .seconds_left = mean * static_cast<double>(total_ - record.step),
                          .metrics = record.metrics});
  }

  // Evaluates the model. Returns true if the step is one of the best.
  bool evaluate() {
    const Evaluation evaluation = task_.evaluate();
    const RankedStep now{state_.step, score_of(evaluation, recipe_.eval.metric)};
    const bool best =
        std::isfinite(now.score) && (state_.ranked.empty() || now.score > state_.ranked[0].score);
    state_.not_better = best ? 0 : state_.not_better + 1;
    if (std::isfinite(now.score)) {
      const auto place = std::find_if(state_.ranked.begin(), state_.ranked.end(),
                                      [&](const RankedStep& other) { return now.score > other.score; });
      state_.ranked.insert(place, now);
      if (state_.ranked.size() > best_kept()) state_.ranked.resize(best_kept());
    }
    state_.seconds = earlier_seconds_ + run_watch_.seconds();
    if (world_.is_first()) {
      folder_.check();
      log_->add(state_.step, evaluation, best);
      write_file(options_.output / "loss.svg", log_->svg("loss"));
      if (options_.on_evaluation) options_.on_evaluation({state_.step, evaluation, best});
    }
    return kept_.is_ranked(state_.step);
  }

  void save() {
    folder_.check();
    check_same_weights(world_, task_.parameters());
    const std::string wrong = first_not_finite(task_.parameters(), optimizer_->masters());
    if (!wrong.empty()) not_finite(wrong.c_str(), NAN, schedule_.at(state_.step));
    const TensorMap optimizer = gradients_->whole_state(*optimizer_),
                    masters = gradients_->whole_masters(*optimizer_);
    last_saved_ = state_.step;
    if (!world_.is_first()) return;
    log_->sync();
    const MasterWeights saved(task_.parameters(), masters);
    save_checkpoint(options_.output, task_, optimizer, state_);
    kept_.prune(last_saved_);
    if (options_.on_checkpoint) options_.on_checkpoint(state_.step, task_);
  }

  void finish(TrainResult& result) {
    folder_.check();
    optimizer_.reset();
    gradients_.reset();
    release_cached_memory();
    widen_weights(task_.parameters());  // the final model is that of checkpoints, in f32
    result.averaged = kept_.final_steps();
    if (world_.is_first()) load_average(result.averaged);
    share_weights(world_, task_.parameters());
    if (evaluates()) result.evaluation = task_.evaluate();
    result.test = task_.test();
    world_.barrier();  // nobody is still at work when the model appears
    if (!world_.is_first()) return;
    if (result.evaluation) log_->add(state_.step, *result.evaluation, false, true);
    if (result.test) log_->add_test(state_.step, *result.test);
    save_final_model();
    write_predictions("dev", result.evaluation);
    write_predictions("test", result.test);
    const RunReport report{
        fmt::format("{}: {}", recipe_.task.kind,
                    std::filesystem::absolute(options_.output).lexically_normal().filename().string()),
        result.evaluation,
        result.test,
        task_.labels(),
        task_.data(),
        task_.samples()};
    write_file(options_.output / "report.html", run_report_html(report, *log_));
    write_file(options_.output / "loss.svg", log_->svg("loss"));
    log_->sync();
    log_->write_csv(options_.output / "log.csv");
  }

  void write_predictions(const char* set, const std::optional<Evaluation>& evaluation) const {
    if (!evaluation || evaluation->predictions.empty()) return;
    write_file(options_.output / fmt::format("predictions-{}.jsonl", set),
               predictions_jsonl(evaluation->predictions, task_.labels()));
  }

  void load_average(const std::vector<std::int64_t>& steps) {
    kept_.require(steps);
    std::vector<std::filesystem::path> directories;
    for (const std::int64_t s : steps) directories.push_back(checkpoint_path(options_.output, s));
    if (!directories.empty()) load_mean(directories, task_.parameters());
  }

  void save_final_model() {
    DType dtype = DType::f32;
    if (recipe_.checkpoint.dtype == "bf16") dtype = DType::bf16;
    if (recipe_.checkpoint.dtype == "f16") dtype = DType::f16;
    AtomicDirectory staging(options_.output / "final");
    task_.save(staging.path(), dtype);
    folder_.check();
    staging.move_files(options_.output, is_adapter(staging.path()) ? "adapter_config.json" : "config.json");
  }

  TrainingTask& task_;
  const Recipe& recipe_;
  const TrainOptions& options_;
  const RunFolder& folder_;
  Communicator& world_;
  std::optional<GradientBuckets> gradients_;
  std::optional<AdamW> optimizer_;
  Generator generator_;
  std::int64_t total_, evaluation_steps_;
  Schedule schedule_;
  TrainingState state_;
  KeptCheckpoints kept_;
  std::optional<RunLog> log_;
  std::int64_t last_saved_ = -1;
  Stopwatch run_watch_;
  double earlier_seconds_ = 0;
  double recent_read_ = 0;
  double recent_seconds_ = 0;
  std::int64_t steps_here_ = 0;
  double after_first_ = 0;  // seconds of the run then
  bool estimated_ = false;
};

void check_run(const TrainingTask& task, const Recipe& recipe) {
  if (total_steps(recipe, task) < 1) {
    throw Error("train: expected a length of at least one step, got 0 (set train.steps or train.epochs)");
  }
  check_metric(recipe, task);
}

}  // namespace

TrainResult run_loop(TrainingTask& task, const Recipe& recipe, const TrainOptions& options,
                     const RunFolder& folder) {
  check_run(task, recipe);
  return Loop(task, recipe, options, folder).run();
}

DryRun measure_steps(TrainingTask& task, const Recipe& recipe, const TrainOptions& options) {
  check_run(task, recipe);
  const RunFolder none{std::filesystem::path()};
  return Loop(task, recipe, options, none).measure();
}

LrRange search_lr(TrainingTask& task, const Recipe& recipe, const TrainOptions& options) {
  check_run(task, recipe);
  const RunFolder none{std::filesystem::path()};
  return Loop(task, recipe, options, none).find_lr();
}

Communicator& processes_of(const TrainOptions& options) {
  static SingleProcess alone;
  return options.processes != nullptr ? *options.processes : alone;
}

TrainResult train_loop(TrainingTask& task, const Recipe& recipe, const TrainOptions& options) {
  return run_loop(task, recipe, options, *open_run_folder(options));
}

}  // namespace heed
