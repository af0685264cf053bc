// The parts of word times; transcribe_test.cpp compares whole ones with OpenAI's whisper.
#include "tasks/speech.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "heed/random.h"
#include "tasks/speech_fixture.h"

namespace heed::tasks {
namespace {

using ::testing::ElementsAre;

TEST(MedianFilter, ReflectsTheEnds) {
  std::vector<float> values{5, 1, 4, 2, 3};
  median_filter(values, 3);
  EXPECT_THAT(values, ElementsAre(1, 4, 2, 3, 2));
  std::vector<float> few{3, 1, 2};
  median_filter(few, 7);
  EXPECT_THAT(few, ElementsAre(3, 1, 2));
}

TEST(WarpTimes, FollowsTheCheapestPath) {
  const std::vector<float> costs{-1, 1,  1,  1,  //
                                 1,  -1, -1, 1,  //
                                 1,  1,  1,  -1};
  EXPECT_THAT(warp_times(costs, 3, 4), ElementsAre(0, 1, 3));
  EXPECT_THAT(warp_times(std::vector<float>{1, 2, 3}, 3, 1), ElementsAre(0, 0, 0));
  EXPECT_THAT(warp_times(std::vector<float>{1, 2, 3}, 1, 3), ElementsAre(0));
}

// The cost of the best path from (i, j) to the last corner, by trying all.
double best(const std::vector<float>& costs, std::int64_t rows, std::int64_t columns, std::int64_t i,
            std::int64_t j) {
  if (i >= rows || j >= columns) return std::numeric_limits<double>::infinity();
  const double own = costs[static_cast<std::size_t>(i * columns + j)];
  if (i == rows - 1 && j == columns - 1) return own;
  return own + std::min({best(costs, rows, columns, i + 1, j), best(costs, rows, columns, i, j + 1),
                         best(costs, rows, columns, i + 1, j + 1)});
}

TEST(WarpTimes, IsAsCheapAsTheBestOfAllPaths) {
  constexpr std::int64_t kRows = 5, kColumns = 6;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<float> costs;
    for (std::uint64_t i = 0; i < kRows * kColumns; ++i) costs.push_back(-RandomStream{seed, 1}.uniform(i));
    const std::vector<std::int64_t> first = warp_times(costs, kRows, kColumns);
    ASSERT_TRUE(std::is_sorted(first.begin(), first.end()));
    double sum = 0;  // a row goes on to the column before the next row's first, or to that column
    std::vector<double> ends{0};
    std::int64_t at = 0;
    EXPECT_EQ(first.front(), 0);
    for (std::int64_t i = 0; i < kRows; ++i) {
      at = first[static_cast<std::size_t>(i)];
      const std::int64_t next = i + 1 < kRows ? first[static_cast<std::size_t>(i + 1)] : kColumns;
      for (std::int64_t j = at; j < std::max(next, at + 1); ++j)
        sum += costs[static_cast<std::size_t>(i * kColumns + j)];
    }
    // Costs are negative, so that the path may also pass through the corner of each step.
    EXPECT_GE(sum + 1e-6, best(costs, kRows, kColumns, 0, 0));
  }
}

TEST(SplitWords, KeepsPunctuationApartAndCharactersWhole) {
  const SpeechFixture fixture;
  const auto ids = fixture.tokenizer->encode(" ab cé. d", false).ids;
  const SplitWords words = split_words(*fixture.tokenizer, ids, false);
  EXPECT_THAT(words.words, ElementsAre(" ab", " cé", ".", " d"));
  EXPECT_EQ(words.tokens[1].size(), 3u);
  EXPECT_THAT(split_words(*fixture.tokenizer, ids, true).words, ElementsAre(" a", "b", " c", "é", ".", " d"));
}

}  // namespace
}  // namespace heed::tasks
