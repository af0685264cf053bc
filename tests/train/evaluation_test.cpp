// What is said of data before training, runs that only measure, and scores of trained models on other data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>

#include "heed/error.h"
#include "reference/temporary_folder.h"
#include "tasks_fixture.h"

namespace heed {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class EvaluationTest : public TasksTest {
 protected:
  // What a dry run says of a table of labeled texts.
  std::string said_of(const std::string& table, bool header = false) {
    write_file(folder_ / "table.tsv", table);
    Recipe r = classification(4);
    r.data.format = "tsv";
    r.data.header = header;
    r.data.train = folder_ / "table.tsv";
    r.data.dev.clear();
    r.eval.metric = "loss";
    std::string said;
    TrainOptions options;
    options.on_message = [&](const std::string& message) { said += message + "\n"; };
    dry_run(r, options);
    return said;
  }
};

TEST_F(EvaluationTest, RareLabelsAndHeadersAreNamed) {
  const std::string rows = "good\ta film\nbad\ta play\ngood\ta song\nbad\ta trip\n";
  EXPECT_THAT(said_of(rows), Not(HasSubstr("warning: labels")));
  EXPECT_THAT(said_of("label\ttext\n" + rows),
              HasSubstr("warning: labels with one example: \"label\" at " + (folder_ / "table.tsv").string() +
                        ":1 (is it a header line? data.header = true skips it)\n"));
  EXPECT_THAT(said_of("label\ttext\n" + rows, true), Not(HasSubstr("warning: labels")));
  const std::string rare = said_of(rows + "odd\ta meal\n");
  EXPECT_THAT(rare, AllOf(HasSubstr("\"odd\" at "), HasSubstr("table.tsv:5\n"), Not(HasSubstr("header"))));
  std::string many = rows;
  for (int i = 0; i < 7; ++i) many += "only" + std::to_string(i) + "\ta meal\n";
  EXPECT_THAT(said_of(many), HasSubstr("table.tsv:9, and 2 more\n"));
  EXPECT_THAT(said_of(rows + std::string("bad\ta \0\0 book\n", 14)),
              HasSubstr("table.tsv: 2 control bytes such as NUL"));
}

TEST_F(EvaluationTest, ADryRunMeasuresAndWritesNothing) {
  for (const Recipe& recipe : {classification(12), causal(12)}) {
    const auto before = listing(folder_);
    TrainOptions options;
    options.output = folder_ / "run";
    const DryRun run = dry_run(recipe, options);
    EXPECT_EQ(listing(folder_), before);
    EXPECT_EQ(run.steps, 12);
    EXPECT_GT(run.trained, 1000);
    EXPECT_GT(run.batches_per_epoch, 0);
    EXPECT_GT(run.targets_per_step, 0);
    EXPECT_GT(run.seconds_per_step, 0);
    EXPECT_GT(run.peak_memory, 1 << 20);
  }
  Recipe wrong = classification(12);
  wrong.train.steps = 0;
  EXPECT_THAT(error_of([&] { dry_run(wrong, {}); }), HasSubstr("train.steps: no length of the run"));
  wrong = classification(12);
  write_file(folder_ / "labeled.txt", "good a film\n");
  EXPECT_THAT(error_of([&] { dry_run(wrong, {}); }), HasSubstr("labeled.txt"));
}

TEST_F(EvaluationTest, ARunOfLongStepsIsGuessedBeforeTheFirst) {
  std::atomic<bool> stop{false};
  std::string said;
  TrainOptions options;
  options.output = folder_ / "run";
  options.stop = &stop;
  options.on_message = [&](const std::string& message) {
    said += message + "\n";
    stop = stop || message.find("guess") != std::string::npos;
  };
  options.on_progress = [&](const ProgressEvent&) { stop = true; };
  Recipe recipe = causal(100);
  recipe.train.accumulate = 1'000'000'000;
  EXPECT_EQ(train(recipe, options).steps, 0);
  EXPECT_THAT(said,
              testing::ContainsRegex(
                  "\n100 steps of [^ ]+ s each, or [0-9.]+ (hours|minutes) in all, at a rough guess\n$"));
  said.clear();
  stop = false;
  options.output = folder_ / "short-steps";
  EXPECT_EQ(train(causal(100'000'000), options).steps, 1);
  EXPECT_THAT(said, Not(HasSubstr("guess")));
}

TEST_F(EvaluationTest, ARangeOfLearningRatesSuggestsOne) {
  Recipe recipe = classification(4);
  recipe.train.batch_tokens = 4096;
  const auto before = listing(folder_);
  const LrRange range = find_lr(recipe, {.output = folder_ / "run"});
  EXPECT_EQ(listing(folder_), before);
  ASSERT_GT(range.points.size(), 20u);
  ASSERT_LE(range.points.size(), 100u);
  EXPECT_DOUBLE_EQ(range.points.front().lr, 1e-7);
  EXPECT_DOUBLE_EQ(range.points.front().smoothed, range.points.front().loss);
  const double factor = std::pow(1e7, 1.0 / 99);
  double lowest = 0, best = HUGE_VAL;
  for (std::size_t i = 0; i < range.points.size(); ++i) {
    const LrRange::Point& point = range.points[i];
    EXPECT_NEAR(point.lr, 1e-7 * std::pow(factor, static_cast<double>(i)), 1e-9 * point.lr);
    EXPECT_TRUE(std::isfinite(point.loss));
    if (point.smoothed < best) best = point.smoothed, lowest = point.lr;
  }
  EXPECT_EQ(range.lowest, lowest);
  EXPECT_EQ(range.suggested, lowest / 10);
  EXPECT_GT(range.suggested, 1e-5);
  EXPECT_LT(best, 0.7 * range.points.front().loss);
}

TEST_F(EvaluationTest, ScoresOfAModelAreThoseOfItsTraining) {
  for (Recipe recipe :
       {tagging(20), answers(20), several_labels(20), regression(20), classification(20), images(20)}) {
    SCOPED_TRACE(recipe.task.kind + recipe.task.problem);
    recipe.checkpoint.every = 100;
    const TrainResult trained = train(recipe, {.output = folder_ / "run"});
    Recipe other;
    other.task = recipe.task;
    other.data.format = recipe.data.format;
    other.data.word_prefix = recipe.data.word_prefix;
    other.train.batch_tokens = recipe.train.batch_tokens;
    other.data.test = recipe.data.dev;
    TrainOptions options;
    options.init = folder_ / "run";
    const Evaluation evaluation = evaluate(other, options);
    EXPECT_FLOAT_EQ(static_cast<float>(evaluation.loss), static_cast<float>(trained.evaluation->loss));
    ASSERT_EQ(evaluation.metrics.size(), trained.evaluation->metrics.size());
    for (const Metric& metric : trained.evaluation->metrics)
      EXPECT_DOUBLE_EQ(evaluation.metric(metric.name).value(), metric.value) << metric.name;
    other.data.test.clear();
    EXPECT_THAT(error_of([&] { evaluate(other, options); }), HasSubstr("data.test: not set"));
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(EvaluationTest, AStopBeforeTheFirstStepEndsTheReading) {
  std::atomic<bool> stop{true};
  for (const Recipe& recipe : {classification(4), causal(4), tagging(4), answers(4)}) {
    TrainOptions options;
    options.output = folder_ / "run";
    options.stop = &stop;
    EXPECT_THROW(train(recipe, options), Canceled) << recipe.task.kind;
  }
  Recipe reverse;
  reverse.task.kind = "reverse";
  shorten(reverse, 4);
  EXPECT_THROW(dry_run(reverse, {.stop = &stop}), Canceled);
  reverse.data.dev_size = 20'000'000;
  EXPECT_THAT(error_of([&] { dry_run(reverse, {}); }),
              HasSubstr("data.test_size: expected at most 10000000 sequences together, got 20020000"));
}

}  // namespace
}  // namespace heed
