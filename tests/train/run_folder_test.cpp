// What a run makes of its folder: one run to a folder, damaged files, folders that move, a full disk.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "heed/train/checkpoint.h"
#include "loop_fixture.h"

namespace heed {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(LoopTest, RefusesAFolderWithARunInIt) {
  run(Regression(), recipe(3), {.output = folder_ / "run"});
  EXPECT_THAT(run_error(Regression(), recipe(3), {.output = folder_ / "run"}),
              HasSubstr("expected a folder without a training run or model"));
  std::filesystem::create_directories(folder_ / "other");
  write_file(folder_ / "other" / "notes.txt", "mine");
  EXPECT_EQ(run(Regression(), recipe(3), {.output = folder_ / "other"}).steps, 3);
}

TEST_F(LoopTest, RefusesToResumeSomethingElse) {
  run(Regression(), recipe(6), {.output = folder_});
  Recipe other = recipe(6);
  other.train.lr = 0.5;
  EXPECT_THAT(run_error(Regression(), other, {.output = folder_, .resume = true}),
              HasSubstr("train.lr: expected 0.01, as in"));
  Regression other_data;
  other_data.data_name = "other";
  EXPECT_THAT(run_error(std::move(other_data), recipe(6), {.output = folder_, .resume = true}),
              HasSubstr("expected the data that"));
  EXPECT_EQ(run(Regression(), recipe(12), {.output = folder_, .resume = true}).steps, 12);
  expect_whole_log(folder_, 12);
}

TEST_F(LoopTest, GoesOnWithSomethingElseWhenForcedAndSaysWhat) {
  run(Regression(), recipe(6), {.output = folder_});
  std::vector<std::string> messages;
  TrainOptions options{.output = folder_, .resume = true, .force = true};
  options.on_message = [&](const std::string& message) { messages.push_back(message); };
  Recipe other = recipe(12);
  other.train.lr = 0.5;
  other.train.warmup = 8;
  other.train.clip_norm = 1;
  other.train.label_smoothing = 0.25;
  EXPECT_EQ(run(Regression(), other, options).steps, 12);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_THAT(messages[0],
              StartsWith("warning: forced to go on with another recipe: train.lr: expected 0.01, as in "));
  EXPECT_THAT(messages[0], AllOf(HasSubstr(", got 0.5; train."), HasSubstr("train.warmup: expected 5, got 8"),
                                 HasSubstr("; and 1 more")));
  EXPECT_THAT(messages[1], StartsWith("resuming at step 6 from "));
  const std::vector<std::string> log = log_lines(folder_);
  EXPECT_THAT(log, Contains(AllOf(HasSubstr("\"step\": 7,"), HasSubstr("\"lr\": 0.4375"))));  // 7/8 of 0.5
  // From now on, that is the run's recipe.
  other.train.steps = 13;
  EXPECT_EQ(run(Regression(), other, {.output = folder_, .resume = true}).steps, 13);

  messages.clear();
  Regression other_data;
  other_data.data_name = "other";
  other.train.steps = 15;
  EXPECT_EQ(run(std::move(other_data), other, options).steps, 15);
  EXPECT_THAT(messages.at(0), AllOf(StartsWith("warning: forced to go on with other data than "),
                                    HasSubstr("was trained on")));
  expect_whole_log(folder_, 15);
}

TEST_F(LoopTest, ForcingWhatDidNotChangeChangesNothing) {
  Recipe r = recipe(12);
  r.checkpoint.keep = 9;
  run(Regression(), r, {.output = folder_ / "straight"});
  run(Regression(), r, {.output = folder_ / "forced"});
  run(Regression(), r, {.output = folder_ / "forced", .resume_from = 6, .force = true});
  EXPECT_EQ(weights(folder_ / "straight"), weights(folder_ / "forced"));
}

TEST_F(LoopTest, TwoRunsDoNotShareAFolder) {
  std::string second;
  TrainOptions options{.output = folder_ / "run"};
  options.on_progress = [&](const ProgressEvent& e) {
    if (e.step == 4)
      second = run_error(Regression(), recipe(30), {.output = folder_ / "run", .resume = true});
  };
  run(Regression(), recipe(30), options);
  EXPECT_THAT(second, HasSubstr("in use by process " + std::to_string(::getpid())));
  run(Regression(), recipe(30), {.output = folder_ / "alone"});
  EXPECT_EQ(weights(folder_ / "run"), weights(folder_ / "alone"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / "lock"));
}

TEST_F(LoopTest, TheMeanIsOfAsManyCheckpointsAsAskedFor) {
  for (const char* average_of : {"best", "last"}) {
    Recipe r = recipe(30);
    r.checkpoint.average_of = average_of;
    const std::filesystem::path output = folder_ / average_of;
    TrainOptions options{.output = output};
    options.on_progress = [&](const ProgressEvent& e) {
      if (e.step == 29) std::filesystem::remove_all(checkpoint_path(output, *average_of == 'b' ? 25 : 27));
    };
    EXPECT_THAT(run_error(Regression(), r, options),
                HasSubstr("not found, though the final model is the mean of"))
        << average_of;
    EXPECT_FALSE(std::filesystem::exists(output / "model.safetensors"));
    r.checkpoint.average = 1;
    EXPECT_EQ(run(Regression(), r, {.output = output, .resume_from = 30}).averaged.size(), 1u);
  }
  Recipe r = recipe(9);  // without evaluations, "best" means the last ones
  r.eval.every = 0;
  EXPECT_THAT(run(Regression(), r, {.output = folder_ / "blind"}).averaged, ElementsAre(3, 6, 9));
}

void damage(const std::filesystem::path& file) {
  std::string bytes = read_file(file);
  bytes[bytes.size() - 9] ^= 4;
  write_file(file, bytes);
}

TEST_F(LoopTest, ADamagedCheckpointIsFoundAndAnOlderOneGoesOn) {
  Recipe r = recipe(30);
  r.checkpoint.average_of = "last";
  run(Regression(), r, {.output = folder_ / "straight"});
  for (const char* name : {"optimizer.safetensors", "model.safetensors", "training.json"}) {
    const std::filesystem::path output = folder_ / name;
    std::atomic<bool> stop = false;
    TrainOptions options{.output = output, .stop = &stop};
    options.on_progress = [&](const ProgressEvent& e) { stop = e.step == 13; };
    EXPECT_TRUE(run(Regression(), r, options).stopped);
    EXPECT_THAT(checkpoint_steps(output), ElementsAre(9, 10, 12, 13));
    damage(checkpoint_path(output, 13) / name);
    damage(checkpoint_path(output, 12) / name);
    EXPECT_THAT(run_error(Regression(), r, {.output = output, .resume = true}),
                ::testing::AllOf(HasSubstr((checkpoint_path(output, 13) / name).string() + ": expected the "),
                                 HasSubstr("CRC-32C"), HasSubstr("--resume-from 10 ")));
    EXPECT_THAT(run_error(Regression(), r, {.output = output, .resume_from = 12}),
                HasSubstr("--resume-from 10 "));
    EXPECT_THAT(run_error(Regression(), r, {.output = output, .resume_from = 7}),
                HasSubstr("7: not found as a complete checkpoint (there are 9, 10, 12, 13)"));
    EXPECT_THAT(checkpoint_steps(output), ElementsAre(9, 10, 12, 13));
    run(Regression(), r, {.output = output, .resume_from = 10});
    EXPECT_EQ(weights(output), weights(folder_ / "straight"));
    expect_whole_log(output, 30);
  }
  const std::filesystem::path all = folder_ / "straight";
  for (const std::int64_t s : checkpoint_steps(all)) damage(checkpoint_path(all, s) / "model.safetensors");
  EXPECT_THAT(run_error(Regression(), r, {.output = all, .resume = true}),
              HasSubstr("no older checkpoint is whole"));
}

TEST_F(LoopTest, ADamagedLineOfTheLogIsNamed) {
  run(Regression(), recipe(6), {.output = folder_});
  std::string log = read_file(folder_ / "log.jsonl");
  log.replace(log.find("\"step\": 3,"), 8, "\"step\":: ");
  write_file(folder_ / "log.jsonl", log);
  EXPECT_THAT(run_error(Regression(), recipe(6), {.output = folder_, .resume = true}),
              HasSubstr("log.jsonl:3: "));
}

TEST_F(LoopTest, AFolderThatIsMovedEndsTheRun) {
  for (const bool removed : {false, true}) {
    TrainOptions options{.output = folder_ / "run"};
    options.on_progress = [&](const ProgressEvent& e) {
      if (e.step != 7) return;
      if (removed) std::filesystem::remove_all(folder_ / "run");
      if (!removed) std::filesystem::rename(folder_ / "run", folder_ / "moved");
    };
    EXPECT_THAT(run_error(Regression(), recipe(30), options),
                HasSubstr(removed ? "it was removed" : "/moved"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  }
  EXPECT_EQ(run(Regression(), recipe(30), {.output = folder_ / "moved", .resume = true}).steps, 30);
}

TEST_F(LoopTest, AFullDiskLeavesTheLastCheckpoint) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  TrainOptions options{.output = folder_ / "run"};
  options.on_progress = [&](const ProgressEvent& e) {
    struct rlimit limit = before;
    limit.rlim_cur = 8000;  // the log still fits, the model does not
    if (e.step == 7) ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  Recipe r = recipe(30);
  r.eval.every = 0;
  const std::string error = run_error(Regression(), r, options);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, signal_before);
  EXPECT_THAT(error, HasSubstr("safetensors"));
  EXPECT_THAT(checkpoint_steps(options.output), ElementsAre(3, 6));
  EXPECT_EQ(listing(options.output / "checkpoints").size(), 2u);
  run(Regression(), r, {.output = folder_ / "straight"});
  run(Regression(), r, {.output = options.output, .resume = true});
  EXPECT_EQ(weights(options.output), weights(folder_ / "straight"));
}

}  // namespace
}  // namespace heed
