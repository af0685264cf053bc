#include "heed/data/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "data/background_reader.h"
#include "data/batch_plan.h"
#include "heed/error.h"
#include "heed/random.h"
#include "heed/threads.h"
#include "reference/error.h"

namespace heed {
namespace {

using testing::ElementsAre;

/// Makes pairs of random lengths 1 .. longest whose ids identify the row: source = 1000 + row, target = 5000
/// + row.
TokenizedCorpus random_corpus(int pairs, int longest) {
  const RandomStream random{3, 0};
  TokenizedCorpus corpus;
  for (int row = 0; row < pairs; ++row) {
    const auto length = [&](int side) {
      return static_cast<std::size_t>(1 + random.word(static_cast<std::uint64_t>(2 * row + side)) %
                                              static_cast<std::uint32_t>(longest));
    };
    corpus.add(std::vector<std::int32_t>(length(0), 1000 + row),
               std::vector<std::int32_t>(length(1), 5000 + row));
  }
  return corpus;
}

/// The batches of a plan, as a training task makes them.
class Batcher {
 public:
  Batcher(const TokenizedCorpus& corpus, const BatchPlanOptions& options, std::int64_t pad_id = 0)
      : corpus_(&corpus), pad_id_(pad_id), plan_(lengths_of(corpus), options) {}
  Batch next() {
    planned_ = plan_.next();
    return make_batch(*corpus_, planned_.rows, pad_id_);
  }
  /// Of the last batch.
  const BatchPlan::Rows& planned() const { return planned_; }
  BatchPlan& plan() { return plan_; }

 private:
  const TokenizedCorpus* corpus_;
  std::int64_t pad_id_;
  BatchPlan plan_;
  BatchPlan::Rows planned_;
};

struct EpochCheck {
  std::vector<std::int64_t> rows;
  double padded = 0;
  double real = 0;
};

EpochCheck walk_epoch(Batcher& batcher, std::int64_t batch_tokens) {
  EpochCheck check;
  const std::int64_t batches = batcher.plan().batches_in_epoch();
  for (std::int64_t i = 0; i < batches; ++i) {
    const Batch batch = batcher.next();
    const std::int64_t rows = batch.source_ids.size(0);
    EXPECT_LE(rows * std::max(batch.source_ids.size(1), batch.labels.size(1)), batch_tokens);
    check.rows.insert(check.rows.end(), batcher.planned().rows.begin(), batcher.planned().rows.end());
    check.padded += static_cast<double>(batch.source_ids.numel() + batch.labels.numel());
    check.real += static_cast<double>(batch.source_tokens + batch.target_tokens);
  }
  return check;
}

void expect_permutation(std::vector<std::int64_t> rows, std::int64_t size) {
  std::sort(rows.begin(), rows.end());
  std::vector<std::int64_t> expected(static_cast<std::size_t>(size));
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(rows, expected);
}

TEST(Batcher, HasEveryPairOncePerEpochWithinTheTokenLimit) {
  const TokenizedCorpus corpus = random_corpus(500, 40);
  Batcher batcher(corpus, {.batch_tokens = 160, .seed = 5});
  const EpochCheck first = walk_epoch(batcher, 160);
  EXPECT_EQ(batcher.plan().position(), (BatchPosition{1, 0}));
  const EpochCheck second = walk_epoch(batcher, 160);
  expect_permutation(first.rows, 500);
  expect_permutation(second.rows, 500);
  EXPECT_NE(first.rows, second.rows);
  // With independent lengths of the two sides, even the best sorting wastes a quarter on average; without
  // sorting, more than half is wasted.
  EXPECT_LT(first.padded / first.real, 1.4);
}

// Rows 2 i and 2 i + 1 have a text in common, and so have row 0 and what others hold against row 9.
TEST(BatchPlan, KeepsEqualTextsApart) {
  std::vector<RowTexts> texts;
  for (std::uint64_t row = 0; row < 40; ++row) texts.push_back({{row / 2, 100 + row}, {1000}});
  texts[9].others = {100};
  BatchPlan plan(texts, 8, {.seed = 3});
  std::vector<std::vector<std::int64_t>> epochs;
  for (int epoch = 0; epoch < 2; ++epoch) {
    epochs.emplace_back();
    for (std::int64_t i = 0, count = plan.batches_in_epoch(); i < count; ++i) {
      const std::vector<std::int64_t> rows = plan.next().all;
      EXPECT_LE(rows.size(), 8u);
      std::set<std::int64_t> halves;
      for (const std::int64_t row : rows) EXPECT_TRUE(halves.insert(row / 2).second) << row;
      EXPECT_FALSE(std::count(rows.begin(), rows.end(), 0) > 0 &&
                   std::count(rows.begin(), rows.end(), 9) > 0);
      epochs.back().insert(epochs.back().end(), rows.begin(), rows.end());
    }
    expect_permutation(epochs.back(), 40);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  const BatchPosition later{1, 2};
  plan.seek(later);
  const std::vector<std::int64_t> rows = plan.next().all;
  BatchPlan again(texts, 8, {.seed = 3});
  again.seek(later);
  EXPECT_EQ(again.next().all, rows);
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), epochs[1].begin() + 16));
  EXPECT_EQ(BatchPlan(std::vector<RowTexts>(5), 2, {.shuffle = false}).next().all,
            (std::vector<std::int64_t>{0, 1}));
}

TEST(Batcher, PadsShiftsAndMasks) {
  TokenizedCorpus corpus;
  corpus.add(std::vector<std::int32_t>{11, 12, 0}, std::vector<std::int32_t>{21, 0});
  corpus.add(std::vector<std::int32_t>{13, 0}, std::vector<std::int32_t>{22, 23, 24, 0});
  Batcher batcher(corpus, {.batch_tokens = 8, .shuffle = false}, 99);
  ASSERT_EQ(batcher.plan().batches_in_epoch(), 1);
  const Batch batch = batcher.next();
  EXPECT_THAT(batcher.planned().rows, ElementsAre(0, 1));
  EXPECT_THAT(batch.source_ids.to_vector<std::int64_t>(), ElementsAre(11, 12, 0, 13, 0, 99));
  EXPECT_THAT(batch.source_mask.to_vector<std::int64_t>(), ElementsAre(1, 1, 1, 1, 1, 0));
  EXPECT_THAT(batch.labels.to_vector<std::int64_t>(), ElementsAre(21, 0, -100, -100, 22, 23, 24, 0));
  EXPECT_EQ(batch.source_tokens, 5);
  EXPECT_EQ(batch.target_tokens, 6);
}

std::vector<std::vector<std::int64_t>> take(Batcher& batcher, int count) {
  std::vector<std::vector<std::int64_t>> rows;
  for (int i = 0; i < count; ++i) rows.push_back(batcher.plan().next().rows);
  return rows;
}

TEST(Batcher, GoesOnFromAnyPosition) {
  const TokenizedCorpus corpus = random_corpus(100, 20);
  const BatchPlanOptions options{.batch_tokens = 100, .seed = 9};
  Batcher whole(corpus, options);
  const auto batches = static_cast<int>(whole.plan().batches_in_epoch());
  const auto all = take(whole, 3 * batches);
  for (const int start : {0, 1, batches - 1, batches, batches + 3, 2 * batches - 1}) {
    Batcher before(corpus, options);
    BatchPosition position;
    for (int i = 0; i < start; ++i) position = before.plan().next().next;
    Batcher resumed(corpus, options);
    resumed.plan().seek(position);
    EXPECT_EQ(take(resumed, batches), (std::vector(all.begin() + start, all.begin() + start + batches)))
        << start;
  }
  Batcher end(corpus, options);
  end.plan().seek({0, batches});
  EXPECT_EQ(end.plan().position(), (BatchPosition{1, 0}));
  EXPECT_ERROR(end.plan().seek({0, batches + 1}), "expected a position within the ");
  EXPECT_ERROR(end.plan().seek({-1, 0}), "expected a position >= 0, got epoch -1 batch 0");
}

// The order for a seed must never change: runs are resumed on other machines and by later versions.
TEST(Batcher, OrderIsTheSameEverywhere) {
  TokenizedCorpus corpus;
  for (std::int32_t i = 0; i < 8; ++i) corpus.add(std::vector{i}, std::vector{i});
  Batcher batcher(corpus, {.batch_tokens = 2, .seed = 42});
  // Computed with an independent Philox in Python: Fisher-Yates over rows (stream 0), pairs, then over
  // batches (stream 1).
  EXPECT_EQ(take(batcher, 4), (std::vector<std::vector<std::int64_t>>{{4, 5}, {3, 6}, {1, 7}, {2, 0}}));
}

TEST(Batcher, RefusesWhatCannotWork) {
  const TokenizedCorpus corpus = random_corpus(10, 20);
  EXPECT_ERROR(Batcher(TokenizedCorpus{}, {}), "expected at least one example, got none");
  EXPECT_ERROR(Batcher(corpus, {.batch_tokens = 5}),
               "expected every example to fit into batch_tokens 5, got one of");
}

std::function<Batch()> batches_of(Batcher batcher) {
  return [batcher = std::make_shared<Batcher>(std::move(batcher))] { return batcher->next(); };
}

TEST(BackgroundReader, GivesTheSameBatchesAsTheForeground) {
  const TokenizedCorpus corpus = random_corpus(200, 30);
  const BatchPlanOptions options{.batch_tokens = 90, .seed = 4};
  Batcher foreground(corpus, options);
  BackgroundReader<Batch> reader(batches_of(Batcher(corpus, options)), 3);
  const std::int64_t batches = 2 * foreground.plan().batches_in_epoch();
  for (std::int64_t i = 0; i < batches; ++i) {
    const Batch expected = foreground.next();
    const Batch batch = reader.next();
    EXPECT_EQ(batch.source_ids.to_vector<std::int64_t>(), expected.source_ids.to_vector<std::int64_t>());
    EXPECT_EQ(batch.labels.to_vector<std::int64_t>(), expected.labels.to_vector<std::int64_t>());
  }
}

TEST(BackgroundReader, StopsWithoutBeingRead) {
  const TokenizedCorpus corpus = random_corpus(200, 30);
  for (int i = 0; i < 20; ++i) {
    BackgroundReader<Batch> reader(batches_of(Batcher(corpus, {.batch_tokens = 90})), 1);
    if (i % 2 == 0) {
      EXPECT_GT(reader.next().source_tokens, 0);
    }
  }
  EXPECT_ERROR(BackgroundReader<Batch>(batches_of(Batcher(corpus, {})), 0),
               "expected a capacity of at least 1, got 0");
}

TEST(BackgroundReader, ForwardsErrorsAfterTheBatchesBefore) {
  int made = 0;
  BackgroundReader<Batch> reader(
      [&made]() -> Batch {
        if (++made > 3) throw Error("disk on fire");
        Batch batch;
        batch.source_tokens = made;
        return batch;
      },
      2);
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(reader.next().source_tokens, i);
  EXPECT_ERROR(reader.next(), "disk on fire");
  EXPECT_ERROR(reader.next(), "disk on fire");
}

TEST(Tokenize, CountsWhatIsTooLong) {
  ParallelCorpus corpus;
  corpus.add("abc", "ab", 1);
  corpus.add("abcdef", "a", 3);
  corpus.add("ab", "abcdefgh", 4);
  corpus.add("abcde", "a", 6);
  corpus.add("", "a", 7);
  DataReport report{.lines = 7, .kept = 5};
  const TextEncoder bytes = [](std::string_view text) {
    return std::vector<std::int32_t>(text.begin(), text.end());
  };
  const std::vector<std::int64_t> rows{0, 1, 2, 3, 4};
  const TokenLimits limits{.max_source_tokens = 5, .max_target_tokens = 6, .max_ratio = 4};
  const TokenizedCorpus tokenized = tokenize_corpus(corpus, rows, bytes, bytes, limits, report);
  ASSERT_EQ(tokenized.size(), 1);
  EXPECT_THAT(tokenized.source(0), ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(tokenized.target(0), ElementsAre('a', 'b'));
  EXPECT_THAT(report[SkipReason::too_many_tokens].lines, ElementsAre(3, 4));
  EXPECT_THAT(report[SkipReason::token_ratio].lines, ElementsAre(6));
  EXPECT_THAT(report[SkipReason::empty_side].lines, ElementsAre(7));
  EXPECT_EQ(report.kept, 1);
  EXPECT_ERROR(tokenize_corpus(corpus, std::vector<std::int64_t>{1}, bytes, bytes, limits, report),
               "no usable pair (of 7 lines, 0 kept, 7 skipped");
  EXPECT_ERROR(tokenize_corpus(corpus, rows, bytes, bytes, {.max_ratio = 0.5}, report),
               "expected max_ratio >= 1 or 0, got 0.5");
}

TEST(Tokenize, KeepsTheOrderWhateverTheThreads) {
  ParallelCorpus corpus;
  std::vector<std::int64_t> rows;
  for (int i = 0; i < 20000; ++i) {
    corpus.add(std::to_string(i), std::to_string(-i), i + 1);
    rows.push_back(i);
  }
  const TextEncoder number = [](std::string_view text) {
    return std::vector<std::int32_t>{static_cast<std::int32_t>(std::stol(std::string(text)))};
  };
  const int before = threads();
  set_threads(3);
  DataReport report;
  const TokenizedCorpus tokenized = tokenize_corpus(corpus, rows, number, number, {}, report);
  set_threads(before);
  ASSERT_EQ(tokenized.size(), 20000);
  for (std::int64_t i = 0; i < tokenized.size(); ++i) {
    ASSERT_EQ(tokenized.source(i)[0], i);
    ASSERT_EQ(tokenized.target(i)[0], -i);
  }
}

}  // namespace
}  // namespace heed
