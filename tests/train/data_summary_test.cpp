// What is known of data before the first step: sizes, lengths, labels, repetitions.
#include "heed/train/data_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/error.h"
#include "tasks_fixture.h"
#include "train/tasks/data_counts.h"

namespace heed {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class DataSummaryTest : public TasksTest {
 protected:
  DataSummary data_of(const Recipe& recipe) { return dry_run(recipe, {}).data; }
};

TEST_F(DataSummaryTest, LengthsAreNearestRanks) {
  DataCounts counts("texts", "tokens", 64.0);
  counts.begin("development");
  for (const std::uint64_t key : {7, 300, 300}) counts.add(key);
  counts.begin("training");
  for (int i = 200; i > 0; --i) counts.add(static_cast<std::uint64_t>(i / 2)), counts.add_length(i);
  counts.begin("test");
  const DataSummary summary = counts.finish();
  ASSERT_EQ(summary.sets.size(), 2u);  // no test set
  const SetSummary &training = summary.sets[0], &development = summary.sets[1];
  EXPECT_EQ(training.name, "training");
  EXPECT_EQ(training.median, 100);
  EXPECT_EQ(training.most_90, 180);
  EXPECT_EQ(training.most_99, 198);
  EXPECT_EQ(training.longest, 200);
  EXPECT_EQ(training.examples, 200);
  EXPECT_EQ(training.repeated, 99);  // keys 0 .. 100, 0 and 100 once
  EXPECT_EQ(training.in_training, 0);
  EXPECT_EQ(development.repeated, 1);
  EXPECT_EQ(development.in_training, 1);
}

TEST_F(DataSummaryTest, LongTextsLabelsAndCopiesAreCounted) {
  Recipe r = classification(2);
  r.data.dev = folder_ / "dev.txt";
  r.data.max_tokens = 6;
  std::string words;
  for (int i = 0; i < 10; ++i) words += " film";
  write_file(r.data.dev, "good a fine film\nbad a poor \xEF\xBF\xBD\nbad" + words + "\n");
  const DataSummary summary = data_of(r);
  ASSERT_EQ(summary.sets.size(), 2u);
  EXPECT_EQ(summary.most, 6);
  const SetSummary &training = summary.sets[0], &development = summary.sets[1];
  EXPECT_EQ(training.examples, 16);
  EXPECT_THAT(training.labels, ElementsAre(std::pair("bad", 8), std::pair("good", 8)));
  EXPECT_EQ(training.truncated, 0);
  EXPECT_EQ(development.examples, 3);
  EXPECT_THAT(development.labels, ElementsAre(std::pair("bad", 2), std::pair("good", 1)));
  EXPECT_EQ(development.truncated, 1);
  EXPECT_EQ(development.longest, 12);
  EXPECT_EQ(development.in_training, 1);
  EXPECT_EQ(development.replaced, 1);
  EXPECT_THAT(
      data_lines(summary),
      ElementsAre("training texts: half have up to 5 tokens, 99 % up to 5, the longest 5; the model reads 6",
                  "warning: of 3 development texts: 1 truncated, 1 in training, too, 1 with U+FFFD"));
  const Report report = data_report(summary);
  EXPECT_THAT(report_text(report),
              AllOf(HasSubstr("bad  8 (50.0 %)   2 (66.7 %)"), HasSubstr("at most 6 tokens at once")));
  EXPECT_EQ(report.found.at("sets").list()[1].at("labels").at("bad").number(), 2);
}

TEST_F(DataSummaryTest, EveryTaskSaysWhatItReads) {
  for (const Recipe& recipe :
       {causal(2), masked(2), classification(2), regression(2), several_labels(2), tagging(2), answers(2)}) {
    SCOPED_TRACE(recipe.task.kind + recipe.task.problem);
    const DataSummary summary = data_of(recipe);
    ASSERT_FALSE(summary.sets.empty());
    EXPECT_EQ(summary.sets[0].name, "training");
    EXPECT_GT(summary.sets[0].examples, 0);
    EXPECT_GT(summary.sets[0].median, 0);
    EXPECT_GE(summary.sets[0].longest, summary.sets[0].median);
    EXPECT_TRUE(summary.most);
  }
}

TEST_F(DataSummaryTest, ImagesThatCannotBeReadAreNamedBeforeTheRun) {
  const Recipe recipe = images(2);
  EXPECT_EQ(data_of(recipe).unit, "");
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(recipe.data.train))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  write_file(files[0], "");
  for (std::size_t i = 1; i < 4; ++i) write_file(files[i], "BM none");
  EXPECT_THAT(error_of([&] { data_of(recipe); }),
              AllOf(HasSubstr("expected images that can be read, got "), HasSubstr("an empty file"),
                    HasSubstr("a BMP image"), HasSubstr("\n  ...")));
}

}  // namespace
}  // namespace heed
