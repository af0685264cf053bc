#include "heed/data/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "heed/error.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class Corpus : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, std::string_view text) const {
    spill(folder_ / name, std::string(text));
    return folder_ / name;
  }
  TemporaryFolder folder_;
};

TEST_F(Corpus, SkipsAndReportsBadLines) {
  const auto file = write("bad.tsv",
                          "\xEF\xBB\xBFone\tun\r\n"
                          "two\n"
                          "three\t\xFFtrois\n"
                          "\tquatre\n"
                          "five\t  \n"
                          "\r\n"
                          " six \t six\n"
                          "\xC0\xAF\tseven\n"
                          "eight\thuit\n"
                          "nine\tne\tuf\n");
  DataReport report;
  const ParallelCorpus corpus = load_columns(file, {}, report);
  ASSERT_EQ(corpus.size(), 3);
  EXPECT_EQ(corpus.source(0), "one");
  EXPECT_EQ(corpus.target(0), "un");
  EXPECT_EQ(corpus.source(1), "six");
  EXPECT_EQ(corpus.line(1), 7);
  EXPECT_EQ(corpus.target(2), "huit");
  EXPECT_EQ(report.lines, 10);
  EXPECT_EQ(report.kept, 3);
  EXPECT_THAT(report[SkipReason::wrong_columns].lines, ElementsAre(2, 10));
  EXPECT_THAT(report[SkipReason::not_utf8].lines, ElementsAre(3, 8));
  EXPECT_THAT(report[SkipReason::empty_side].lines, ElementsAre(4, 5, 6));
  EXPECT_EQ(
      report.summary(),
      "10 lines, 3 kept, 7 skipped\n  not UTF-8: 2 (lines 3, 8)\n  wrong number of columns: 2 (lines 2, "
      "10)\n  empty side: 3 (lines 4, 5, 6)");
}

TEST_F(Corpus, PicksColumnsAndRefusesExtraOnes) {
  const auto file = write("columns.tsv", "a\tb\tc\nd\te\tf\tg\n");
  DataReport report;
  const ParallelCorpus corpus =
      load_columns(file, {.source_column = 2, .target_column = 0, .allow_extra_columns = false}, report);
  ASSERT_EQ(corpus.size(), 1);
  EXPECT_EQ(corpus.source(0), "c");
  EXPECT_EQ(corpus.target(0), "a");
  EXPECT_THAT(report[SkipReason::wrong_columns].lines, ElementsAre(2));
}

TEST_F(Corpus, ReadsCommasQuotesAndHeaders) {
  const auto file = write("pairs.csv", "en,fr\n\"one, two\",\" un\ndeux \"\nthree\n");
  DataReport report;
  const ParallelCorpus corpus = load_columns(file, {.csv = true, .header = true}, report);
  ASSERT_EQ(corpus.size(), 1);
  EXPECT_EQ(corpus.source(0), "one, two");
  EXPECT_EQ(corpus.target(0), "un\ndeux");
  EXPECT_EQ(corpus.line(0), 2);
  EXPECT_THAT(report[SkipReason::wrong_columns].lines, ElementsAre(4));
  load_columns(write("nul.tsv", std::string("a\0\tb\n", 5)), {}, report);
  EXPECT_THAT(report.summary(), HasSubstr("\n  1 control byte such as NUL"));
}

TEST_F(Corpus, LimitsCountCharactersNotBytes) {
  const auto file = write("long.tsv", "\u00e9\u00e9\u00e9\u00e9\tabcd\nabcde\tabcd\nab\tabcde\nab\tabcd\n");
  DataReport report;
  const ParallelCorpus corpus = load_columns(file, {.max_characters = 4, .max_character_ratio = 1.5}, report);
  ASSERT_EQ(corpus.size(), 1);
  EXPECT_EQ(corpus.line(0), 1);
  EXPECT_THAT(report[SkipReason::too_many_characters].lines, ElementsAre(2, 3));
  EXPECT_THAT(report[SkipReason::character_ratio].lines, ElementsAre(4));
}

TEST_F(Corpus, RemembersOnlyTheFirstLineNumbers) {
  std::string text = "good\tbon\n";
  for (int i = 0; i < 20; ++i) text += "no tab\n";
  DataReport report;
  load_columns(write("many.tsv", text), {}, report);
  EXPECT_EQ(report[SkipReason::wrong_columns].count, 20);
  EXPECT_THAT(report.summary(), HasSubstr("wrong number of columns: 20 (lines 2, 3, 4, 5, 6, ...)"));
}

TEST_F(Corpus, ReadsLineAlignedFiles) {
  DataReport report;
  const ParallelCorpus corpus =
      load_line_aligned(write("a.en", "one\ta\n\nthree\n"), write("a.fr", "un\ndeux\ntrois"), {}, report);
  ASSERT_EQ(corpus.size(), 2);
  EXPECT_EQ(corpus.source(0), "one\ta");
  EXPECT_EQ(corpus.target(1), "trois");
  EXPECT_THAT(report[SkipReason::empty_side].lines, ElementsAre(2));
}

TEST_F(Corpus, FoldersAreReadFileByFileAndTheirLinesCountedThrough) {
  write("b.tsv", "three\ttrois\n");
  write("a.tsv", "one\tun\nbad\n");
  DataReport report;
  const ParallelCorpus corpus = load_columns(folder_, {}, report);
  ASSERT_EQ(corpus.size(), 2);
  EXPECT_EQ(corpus.source(1), "three");
  EXPECT_EQ(corpus.line(1), 3);
  EXPECT_THAT(report[SkipReason::wrong_columns].lines, ElementsAre(2));
}

TEST_F(Corpus, ErrorsNameTheFileAndTheCounts) {
  DataReport report;
  const auto source = write("b.en", "1\n2\n3\n4\n5\n");
  const auto target = write("b.fr", "1\n2\n");
  EXPECT_ERROR(load_line_aligned(source, target, {}, report),
               AllOf(HasSubstr("b.en"), HasSubstr("b.fr"), HasSubstr("got 5 and 2")));
  EXPECT_ERROR(load_columns(folder_ / "none.tsv", {}, report), "none.tsv");
  EXPECT_ERROR(load_line_aligned(folder_, folder_, {}, report),
               "expected a text file, got a directory (name the file in it)");
  EXPECT_ERROR(load_columns(write("empty.tsv", ""), {}, report), "no usable line");
  DataReport fresh;
  EXPECT_ERROR(load_columns(source, {}, fresh), "wrong number of columns: 5");
  EXPECT_ERROR(load_columns(source, {.source_column = 1}, report), "two different columns");
  EXPECT_ERROR(load_columns(source, {.max_character_ratio = 0.5}, report), "ratio");
}

ParallelCorpus numbered(int sources, int targets_each, bool backwards) {
  ParallelCorpus corpus;
  for (int i = 0; i < sources * targets_each; ++i) {
    const int row = backwards ? sources * targets_each - 1 - i : i;
    corpus.add(std::to_string(row / targets_each) + "s", std::to_string(row) + "t", i + 1);
  }
  return corpus;
}

std::set<std::string> sources_of(const ParallelCorpus& corpus, const std::vector<std::int64_t>& rows) {
  std::set<std::string> sources;
  for (const std::int64_t row : rows) sources.emplace(corpus.source(row));
  return sources;
}

TEST(Split, KeepsSourcesTogetherAndSizesExact) {
  const ParallelCorpus corpus = numbered(200, 3, false);
  const CorpusSplit split = split_corpus(corpus, {.dev = 20, .test = 30, .seed = 1});
  const auto train = sources_of(corpus, split.train);
  const auto dev = sources_of(corpus, split.dev);
  const auto test = sources_of(corpus, split.test);
  EXPECT_EQ(train.size(), 150u);
  EXPECT_EQ(dev.size(), 20u);
  EXPECT_EQ(test.size(), 30u);
  std::set<std::string> all = train;
  all.insert(dev.begin(), dev.end());
  all.insert(test.begin(), test.end());
  EXPECT_EQ(all.size(), 200u);
  EXPECT_EQ(split.train.size() + split.dev.size() + split.test.size(), 600u);
  EXPECT_TRUE(std::is_sorted(split.train.begin(), split.train.end()));
}

TEST(Split, DependsOnTextsAndSeedOnly) {
  const ParallelCorpus forwards = numbered(100, 2, false), backwards = numbered(100, 2, true);
  const SplitOptions options{.dev = 10, .test = 10, .seed = 7};
  EXPECT_EQ(sources_of(forwards, split_corpus(forwards, options).test),
            sources_of(backwards, split_corpus(backwards, options).test));
  EXPECT_NE(sources_of(forwards, split_corpus(forwards, options).test),
            sources_of(forwards, split_corpus(forwards, {.dev = 10, .test = 10, .seed = 8}).test));
}

TEST(Split, RefusesToHoldOutEverything) {
  const ParallelCorpus corpus = numbered(10, 2, false);
  EXPECT_ERROR(split_corpus(corpus, {.dev = 5, .test = 5}),
               "expected dev + test below the 10 distinct source texts, got 5 + 5");
  EXPECT_ERROR(split_corpus(corpus, {.dev = -1}), "expected sizes >= 0, got dev -1");
  EXPECT_EQ(split_corpus(corpus, {.dev = 5, .test = 4}).train.size(), 2u);
}

TEST(Split, GroupsReferences) {
  ParallelCorpus corpus;
  corpus.add("run", "courez", 1);
  corpus.add("hi", "salut", 2);
  corpus.add("run", "cours", 3);
  corpus.add("run", "courez", 4);
  const auto groups = group_references(corpus, std::vector<std::int64_t>{0, 1, 2, 3});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].source, "run");
  EXPECT_THAT(groups[0].references, ElementsAre("courez", "cours"));
  EXPECT_THAT(groups[1].references, ElementsAre("salut"));
}

}  // namespace
}  // namespace heed
