// The training loop: its output, that interruptions do not change the result, and its errors.
#include "heed/train/train.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "heed/train/checkpoint.h"
#include "loop_fixture.h"

extern char** environ;

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(LoopTest, LeavesAModelALogAndAPicture) {
  std::vector<ProgressEvent> events;
  std::vector<EvaluationEvent> evaluations;
  const TrainOptions options{.output = folder_ / "run",
                             .on_progress = [&](const ProgressEvent& e) { events.push_back(e); },
                             .on_evaluation = [&](const EvaluationEvent& e) { evaluations.push_back(e); }};
  const TrainResult result = run(Regression(), recipe(30), options);
  EXPECT_EQ(result.steps, 30);
  EXPECT_EQ(result.epochs, 12);
  EXPECT_FALSE(result.stopped);
  ASSERT_EQ(events.size(), 30u);
  EXPECT_EQ(events.back().total, 30);
  EXPECT_LT(events.back().loss, 0.8 * events.front().loss);
  EXPECT_EQ(evaluations.size(), 6u);
  EXPECT_THAT(result.averaged, ElementsAre(20, 25, 30));
  expect_whole_log(options.output, 30);
  EXPECT_EQ(log_lines(options.output).size(), 30u + 6u + 1u);
  EXPECT_THAT(read_file(options.output / "loss.svg"), HasSubstr("<svg"));
  EXPECT_THAT(checkpoint_steps(options.output), ElementsAre(20, 25, 27, 30));  // the best three, the last two
}

TEST_F(LoopTest, LeavesItsLogAsATable) {
  run(Regression(), recipe(6), {.output = folder_ / "run"});
  const std::string table = read_file(folder_ / "run" / "log.csv");
  EXPECT_THAT(table, testing::StartsWith("step,epoch,loss,lr,grad_norm,tokens,tokens_per_second,seconds,"
                                         "dev_loss,best,final\n1,0,"));
  const std::vector<std::string> lines = log_lines(folder_ / "run");
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), std::ssize(lines) + 1);
  EXPECT_THAT(table, HasSubstr("\n5,,,,,,,,"));  // the evaluation
}

TEST_F(LoopTest, EvaluatesByEpochs) {
  // Five batches of an epoch in steps of two.
  for (const auto& [every, steps] : {std::pair("epoch", 3), std::pair("2 epoch", 5),
                                     std::pair("0.4 epoch", 1), std::pair("0.01 epoch", 1)}) {
    Recipe r = recipe(15);
    r.checkpoint.average = 1;
    apply_override(r, std::string("eval.every=") + every);
    EXPECT_EQ(recipe_values(r).at("eval.every"), every);
    std::vector<std::int64_t> evaluated;
    TrainOptions options{.output = folder_ / every};
    options.on_evaluation = [&](const EvaluationEvent& e) { evaluated.push_back(e.step); };
    run(Regression(), r, options);
    std::vector<std::int64_t> expected;
    for (std::int64_t step = steps; step <= 15; step += steps) expected.push_back(step);
    EXPECT_EQ(evaluated, expected) << every;
  }
  Recipe r = recipe(15);
  apply_override(r, "eval.every=7");
  EXPECT_EQ(r.eval.every.steps, 7);
  for (const char* wrong : {"epochs", "0 epoch", "half epoch", "-1", "1.5", "\"7\""})
    EXPECT_THAT(error_of([&] { apply_override(r, std::string("eval.every=") + wrong); }),
                HasSubstr("expected a whole number of steps of at least 0, \"epoch\", or epochs such as"))
        << wrong;
}

TEST_F(LoopTest, FinalModelIsTheMeanOfItsCheckpoints) {
  Recipe r = recipe(9);
  r.checkpoint.average_of = "last";
  r.checkpoint.average = 2;
  const TrainResult result = run(Regression(), r, {.output = folder_});
  EXPECT_THAT(result.averaged, ElementsAre(6, 9));
  const auto weight = [](const std::filesystem::path& directory) {
    return SafetensorsFile::open(directory / "model.safetensors").get("weight").to_vector<float>();
  };
  const std::vector<float> a = weight(checkpoint_path(folder_, 6));
  const std::vector<float> b = weight(checkpoint_path(folder_, 9));
  const std::vector<float> mean = weight(folder_);
  ASSERT_EQ(mean.size(), a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(mean[i], static_cast<float>((static_cast<double>(a[i]) + b[i]) / 2));
  }
}

TEST_F(LoopTest, AccumulatedBatchesEqualTheBigBatch) {
  Recipe r = recipe(3);  // one epoch: later ones have another order
  r.eval.every = 0;
  run(Regression({5, 3, 6, 2, 1, 7}, 0), r, {.output = folder_ / "small"});
  r.train.accumulate = 1;
  run(Regression({8, 8, 8}, 0), r, {.output = folder_ / "big"});
  const auto weight = [&](const char* name) {
    return SafetensorsFile::open(folder_ / name / "model.safetensors").get("weight").to_vector<float>();
  };
  const std::vector<float> small = weight("small");
  const std::vector<float> big = weight("big");
  ASSERT_EQ(small.size(), big.size());
  for (std::size_t i = 0; i < big.size(); ++i) EXPECT_NEAR(small[i], big[i], 2e-6);
}

TEST_F(LoopTest, StoppedAndResumedEqualsUnbroken) {
  for (const char* average_of : {"best", "last"}) {
    Recipe r = recipe(30);
    r.checkpoint.average_of = average_of;
    const std::filesystem::path straight = folder_ / (std::string("straight_") + average_of);
    const std::filesystem::path broken = folder_ / (std::string("broken_") + average_of);
    run(Regression(), r, {.output = straight});
    std::atomic<bool> stop = false;
    std::int64_t steps = 0;
    TrainOptions options{.output = broken, .resume = true};
    options.stop = &stop;
    options.on_progress = [&](const ProgressEvent& e) { stop = e.step % 7 == 0; };
    for (TrainResult result{.stopped = true}; result.stopped; ++steps) {
      stop = false;
      result = run(Regression(), r, options);
    }
    EXPECT_EQ(steps, 5);  // stopped at 7, 14, 21, 28
    EXPECT_EQ(weights(straight), weights(broken)) << average_of;
    expect_whole_log(broken, 30);
    EXPECT_EQ(log_lines(broken).size(), log_lines(straight).size());
  }
}

TEST_F(LoopTest, MissingLinesOfTheLogAreTold) {
  const std::filesystem::path folder = folder_ / "run", log = folder / "log.jsonl";
  std::string said;
  TrainOptions options{.output = folder, .resume = true};
  options.on_message = [&](const std::string& message) { said += message + "\n"; };
  run(Regression(), recipe(6), options);
  run(Regression(), recipe(12), options);
  EXPECT_THAT(said, testing::Not(HasSubstr("missing")));
  std::string kept;
  for (const std::string& line : log_lines(folder))
    if (line.find("{\"step\": 4,") != 0 && line.find("{\"step\": 8,") != 0) kept += line + "\n";
  write_file(log, kept);
  run(Regression(), recipe(18), options);
  EXPECT_THAT(said, HasSubstr("warning: " + log.string() + ": lines are missing from step 4 on"));
  std::filesystem::remove(log);
  run(Regression(), recipe(24), options);
  EXPECT_THAT(said, HasSubstr("warning: " + log.string() + ": lines are missing from step 1 on"));
}

// A run that is killed before its first step leaves the checkpoint of step 0.
TEST_F(LoopTest, StoppedBeforeTheFirstStepAndResumedEqualsUnbroken) {
  const Recipe r = recipe(12);
  run(Regression(), r, {.output = folder_ / "straight"});
  const std::atomic<bool> stop = true;
  EXPECT_TRUE(run(Regression(), r, {.output = folder_ / "broken", .resume = true, .stop = &stop}).stopped);
  EXPECT_EQ(checkpoint_steps(folder_ / "broken"), (std::vector<std::int64_t>{0}));
  run(Regression(), r, {.output = folder_ / "broken", .resume = true});
  EXPECT_EQ(weights(folder_ / "straight"), weights(folder_ / "broken"));
}

// Run by the test below in a separate process.
TEST(LoopChild, DISABLED_Trains) {
  Regression task;
  Recipe r;
  r.train.steps = 60;
  r.train.warmup = 5;
  r.eval.every = 7;
  r.checkpoint.every = 4;
  r.checkpoint.average = 3;
  train_loop(task, r, {.output = std::getenv("HEED_TRAIN_CHILD"), .resume = true});
}

pid_t spawn_child(const std::filesystem::path& run) {
  ::setenv("HEED_TRAIN_CHILD", run.c_str(), 1);
  for (const char* name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"})
    ::unsetenv(name);  // else the child may find its test in another shard
  std::string program = "/proc/self/exe";
  std::string filter = "--gtest_filter=LoopChild.DISABLED_Trains";
  std::string also = "--gtest_also_run_disabled_tests";
  char* arguments[] = {program.data(), filter.data(), also.data(), nullptr};
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  EXPECT_EQ(::posix_spawn(&child, program.c_str(), &quiet, nullptr, arguments, environ), 0);
  posix_spawn_file_actions_destroy(&quiet);
  return child;
}

TEST_F(LoopTest, KilledAndResumedEqualsUnbroken) {
  const auto finish = [](pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
  };
  const std::filesystem::path straight = folder_ / "straight";
  const auto before = std::chrono::steady_clock::now();
  ASSERT_EQ(finish(spawn_child(straight)), 0);
  const auto whole = std::chrono::steady_clock::now() - before;
  const std::filesystem::path broken = folder_ / "broken";
  const RandomStream delays{5, 0};
  int killed = 0;
  int status = -1;
  for (std::uint64_t attempt = 0; status != 0; ++attempt) {
    ASSERT_LT(attempt, 60u);
    const pid_t child = spawn_child(broken);
    // Kills the first attempts before any run can finish, and later ones after increasing delays, so that the
    // run progresses even if starting takes most of the time.
    const double later = attempt == 0 ? 0 : 0.5 * delays.uniform(attempt);
    std::this_thread::sleep_for(whole * (0.05 + 0.02 * static_cast<double>(attempt) + later));
    ::kill(child, SIGKILL);
    status = finish(child);
    if (WIFSIGNALED(status)) ++killed;
  }
  EXPECT_GE(killed, 1);
  EXPECT_EQ(weights(straight), weights(broken));
  expect_whole_log(broken, 60);
  EXPECT_EQ(checkpoint_steps(straight), checkpoint_steps(broken));
  EXPECT_THAT(listing(broken / "checkpoints"), Each(Not(HasSubstr("tmp"))));
}

TEST_F(LoopTest, StopsAtALossThatIsNotANumber) {
  Regression task;
  task.poisoned_call = 2 * 10 + 1;  // the first micro-batch of step 11
  EXPECT_THAT(run_error(std::move(task), recipe(30), {.output = folder_ / "run"}),
              ::testing::AllOf(HasSubstr("expected a finite loss at step 11, got nan at a learning rate of"),
                               HasSubstr("train.clip_norm"), HasSubstr("run/checkpoints/10")));
  EXPECT_EQ(checkpoint_steps(folder_ / "run").back(), 10);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / "model.safetensors"));
  EXPECT_EQ(run(Regression(), recipe(30), {.output = folder_ / "run", .resume = true}).steps, 30);
  expect_whole_log(folder_ / "run", 30);
}

TEST_F(LoopTest, EndsEarlyWhenNothingGetsBetter) {
  Recipe r = recipe(100);
  r.eval.patience = 3;
  r.checkpoint.average = 1;
  Regression task;
  task.losses = {5, 4, 4.5, 4, 4.2, 1};
  const TrainResult result = run(std::move(task), r, {.output = folder_});
  EXPECT_TRUE(result.early_stopped);
  EXPECT_EQ(result.steps, 25);
  EXPECT_THAT(result.averaged, ElementsAre(10));
  EXPECT_EQ(weights(folder_), weights(checkpoint_path(folder_, 10)));
  // Continuing from there with the same recipe changes nothing.
  const TrainResult again = run(Regression(), r, {.output = folder_, .resume = true});
  EXPECT_EQ(again.steps, 25);
  EXPECT_EQ(weights(folder_), weights(checkpoint_path(folder_, 10)));
}

TEST_F(LoopTest, AWarmUpLongerThanTheRunIsReported) {
  std::string messages;
  TrainOptions options{.output = folder_ / "long"};
  options.on_message = [&](const std::string& text) { messages += text; };
  Recipe r = recipe(8);
  r.train.warmup = 80;
  run(Regression(), r, options);
  EXPECT_THAT(messages,
              HasSubstr("80 steps of warm-up in a run of 8: the learning rate only rises to 0.001,"));
}

TEST_F(LoopTest, ALongRunIsEstimatedAfterSomeSecondsOfSteps) {
  std::string messages;
  std::vector<double> left;
  std::atomic<bool> stop = false;
  TrainOptions options{.output = folder_ / "long"};
  options.on_message = [&](const std::string& text) { messages += text + "\n"; };
  options.on_progress = [&](const ProgressEvent& e) {
    left.push_back(e.seconds_left);
    if (e.step == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3050));
    stop = e.step == 2;
  };
  options.stop = &stop;
  run(Regression(), recipe(1'000'000'000'000), options);
  EXPECT_THAT(messages,
              testing::ContainsRegex("a step takes 3[.0-9]* s; 999999999998 more take about [0-9.]+ "
                                     "hours\n"));
  EXPECT_LT(left.front(), 3e12);
  EXPECT_GT(left.back(), 3e12);
  messages.clear();
  stop = false;
  options.on_progress = nullptr;
  options.output = folder_ / "short";
  run(Regression(), recipe(3), options);
  EXPECT_THAT(messages, testing::Not(HasSubstr("a step takes")));
}

// A warm-up given as a fraction of the first length keeps its number of steps when the run is made longer.
TEST_F(LoopTest, AShareOfTheRunAsWarmUpStaysWhenTheRunIsContinued) {
  Recipe r = recipe(20);
  r.train.schedule = "constant";
  r.train.warmup = 0.2;
  run(Regression(), r, {.output = folder_});
  r.train.steps = 60;
  std::vector<double> rates;
  TrainOptions options{.output = folder_, .resume = true};
  options.on_progress = [&](const ProgressEvent& e) { rates.push_back(e.lr); };
  run(Regression(), r, options);
  EXPECT_EQ(rates, std::vector<double>(40, r.train.lr));
  const std::string first = log_lines(folder_)[1];
  EXPECT_NEAR(Config::parse(first, "log").required_number("lr"), r.train.lr / 2, 1e-12);
}

TEST_F(LoopTest, CountsPassesInPart) {
  std::vector<double> passes;
  TrainOptions options{.output = folder_};
  options.on_progress = [&](const ProgressEvent& e) { passes.push_back(e.passes); };
  const TrainResult result = run(Regression(), recipe(4), options);  // 2 of 5 micro-batches per step
  EXPECT_THAT(passes, ElementsAre(0.4, 0.8, 1.2, 1.6));
  EXPECT_EQ(result.passes, 1.6);
  EXPECT_EQ(result.epochs, 1);
}

TEST_F(LoopTest, CountsEpochsInSteps) {
  Recipe r = recipe(0);
  r.train.epochs = 3;  // of 5 micro-batches, 2 per step
  EXPECT_EQ(run(Regression(), r, {.output = folder_}).steps, 8);
}

// A file size limit simulates a full disk: the system refuses the same write.

}  // namespace
}  // namespace heed
