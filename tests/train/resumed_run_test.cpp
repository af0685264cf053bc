// A stopped and resumed run of every task equals an unbroken one, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/error.h"
#include "tasks_fixture.h"

namespace heed {
namespace {

using ::testing::HasSubstr;

class ResumedRun : public TasksTest {
 protected:
  void expect_resumes(const Recipe& r) const {
    train_twice(r, folder_ / "straight", folder_ / "broken");
    EXPECT_EQ(weights(folder_ / "straight"), weights(folder_ / "broken"));
  }
};

TEST_F(ResumedRun, StoppedAndResumedEqualsUnbroken) {
  Recipe with_token_dropout = classification(9);
  with_token_dropout.task.token_dropout = 0.3;
  for (const Recipe& r : {causal(9), masked(9), classification(9), with_token_dropout, several_labels(9),
                          regression(9), tagging(9), answers(9), images(9), changed_images(9)}) {
    SCOPED_TRACE(r.task.kind + " " + r.task.problem);
    expect_resumes(r);
    std::filesystem::remove_all(folder_ / "straight");
    std::filesystem::remove_all(folder_ / "broken");
  }
}

TEST_F(ResumedRun, IsOfTheSameTaskAndModel) {
  train(causal(4), {.output = folder_ / "run"});
  const std::string before = weights(folder_ / "run");
  Recipe deeper = causal(8);
  deeper.model.settings["n_layer"] = "2";
  const auto refusal_of = [&](const Recipe& r, bool force) {
    return error_of([&] { train(r, {.output = folder_ / "run", .resume = true, .force = force}); });
  };
  for (const bool force : {false, true}) {
    EXPECT_THAT(refusal_of(classification(8), force),
                HasSubstr("train: task.kind: expected causal-lm, as in "));
    EXPECT_THAT(refusal_of(deeper, force), HasSubstr("model.n_layer: expected 1, as in "));
  }
  EXPECT_THAT(refusal_of(deeper, true), HasSubstr("even with --force, a run goes on with its own model"));
  EXPECT_EQ(weights(folder_ / "run"), before);
}

TEST_F(ResumedRun, GoesOnWithOtherDataAndSettingsWhenForced) {
  train(causal(4), {.output = folder_ / "run"});
  Recipe other = causal(8);
  std::string text;
  for (int i = 0; i < 20; ++i) text += "the lazy dog jumps over the quick fox\n";
  write_file(folder_ / "text.txt", text);
  other.train.batch_tokens = 128;
  std::string said;
  TrainOptions options{.output = folder_ / "run", .resume = true};
  options.on_message = [&](const std::string& message) { said += message + "\n"; };
  const Recipe same = causal(8);
  write_file(folder_ / "text.txt", text);
  EXPECT_ERROR(train(same, options),
               "got other data in data.train (" + (folder_ / "text.txt").string() + ")");
  options.force = true;
  EXPECT_EQ(train(other, options).steps, 8);
  EXPECT_THAT(said, HasSubstr("train.batch_tokens: expected 256, as in "));
  EXPECT_THAT(said, HasSubstr("forced to go on with other data than "));
}

TEST_F(ResumedRun, SaysWhatItDoesNotUse) {
  train(causal(2), {.output = folder_ / "other"});
  train(causal(4), {.output = folder_ / "run"});
  std::string said;
  TrainOptions options{.output = folder_ / "run", .resume = true, .init = folder_ / "other"};
  options.on_message = [&](const std::string& message) { said += message + "\n"; };
  Recipe r = causal(6);
  r.tokenizer.from = folder_ / "other";
  EXPECT_EQ(train(r, options).steps, 6);
  EXPECT_THAT(said,
              HasSubstr("warning: --init " + (folder_ / "other").string() + " is not used: the run goes on"));
  EXPECT_THAT(said, HasSubstr("warning: tokenizer.from " + (folder_ / "other").string() + " is not used"));
}

}  // namespace
}  // namespace heed
