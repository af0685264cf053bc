// Noise against its definitions: numbers and lengths of spans, the original from inputs and targets, and the
// distributions of the random choices.
#include "data/denoising.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace heed {
namespace {

constexpr std::int64_t kVocabulary = 1000, kMaskId = 999, kFirstSentinel = 998, kEndId = 1;

NoiseTokens noise_vocabulary() {
  NoiseTokens tokens{
      .begin = {}, .end = {kEndId}, .sentinels = {}, .mask = kMaskId, .full_stop = {}, .begins_word = {}};
  for (int i = 0; i < 100; ++i) tokens.sentinels.push_back(kFirstSentinel - i);
  tokens.full_stop.resize(kVocabulary);
  tokens.full_stop[10] = true;
  tokens.begins_word.resize(kVocabulary, true);
  tokens.begins_word[11] = false;
  return tokens;
}

std::vector<std::int32_t> numbered_text(std::int64_t length) {
  std::vector<std::int32_t> text(static_cast<std::size_t>(length));
  std::iota(text.begin(), text.end(), 20);
  return text;
}

// The numbers that the formulas of T5's random_spans_noise_mask give, computed in Python (round halves to
// even).
TEST(Denoising, SpanCountsAreT5s) {
  struct Row {
    std::int64_t length;
    double density, span;
    std::int64_t tokens, spans;
  };
  for (const Row& row :
       {Row{2, .15, 3, 1, 1}, Row{10, .15, 3, 2, 1}, Row{30, .15, 3, 4, 1}, Row{50, .15, 3, 8, 3},
        Row{114, .15, 3, 17, 6}, Row{256, .15, 3, 38, 13}, Row{568, .15, 3, 85, 28}, Row{100, .5, 3, 50, 17},
        Row{100, .15, 10, 15, 2}, Row{20, .125, 1, 2, 2}, Row{10, .9, 3, 9, 1}, Row{3, .9, 1, 2, 1}}) {
    const SpanCounts counts = span_counts(row.length, {row.density, row.span});
    EXPECT_EQ(counts.tokens, row.tokens) << row.length;
    EXPECT_EQ(counts.spans, row.spans) << row.length;
  }
}

TEST(Denoising, SpansAlternateAndHaveTheirNumbers) {
  for (const std::int64_t length : {2, 3, 7, 20, 100, 513}) {
    for (const NoiseAmount& amount : {NoiseAmount{.15, 3}, NoiseAmount{.5, 2}, NoiseAmount{.9, 3}}) {
      Draws draws({7, static_cast<std::uint64_t>(length)});
      const std::vector<bool> mask = random_spans(length, amount, draws);
      ASSERT_EQ(static_cast<std::int64_t>(mask.size()), length);
      std::int64_t spans = 0;
      for (std::size_t i = 1; i < mask.size(); ++i) spans += mask[i] && !mask[i - 1];
      const SpanCounts counts = span_counts(length, amount);
      EXPECT_EQ(std::count(mask.begin(), mask.end(), true), counts.tokens);
      EXPECT_EQ(spans, counts.spans);
      EXPECT_FALSE(mask.front());
      EXPECT_TRUE(mask.back());
    }
  }
}

TEST(Denoising, InputsAndTargetsGiveTheTextBack) {
  const NoiseTokens tokens = noise_vocabulary();
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto length = static_cast<std::int64_t>(2 + seed);
    const std::vector<std::int32_t> text = numbered_text(length);
    Draws draws({seed, 3});
    const NoisePair pair = corrupt_spans(text, tokens, {.15, 3}, draws);
    const auto [input_length, target_length] = corrupted_lengths(length, tokens, {.15, 3});
    EXPECT_EQ(static_cast<std::int64_t>(pair.input.size()), input_length);
    EXPECT_EQ(static_cast<std::int64_t>(pair.target.size()), target_length);
    EXPECT_EQ(pair.input.back(), kEndId);
    EXPECT_EQ(pair.target.back(), kEndId);
    // The sentinels come in the order <extra_id_0>, <extra_id_1>, ... on both sides.
    std::map<std::int64_t, std::vector<std::int32_t>> spans;
    std::int64_t open = kFirstSentinel + 1;
    for (std::size_t i = 0; i + 1 < pair.target.size(); ++i) {
      if (pair.target[i] > kFirstSentinel - 100 && pair.target[i] <= kFirstSentinel) {
        EXPECT_EQ(pair.target[i], open - 1);
        open = pair.target[i];
      } else {
        spans[open].push_back(static_cast<std::int32_t>(pair.target[i]));
      }
    }
    std::vector<std::int32_t> restored;
    for (std::size_t i = 0; i + 1 < pair.input.size(); ++i) {
      const auto span = spans.find(pair.input[i]);
      if (span == spans.end()) {
        restored.push_back(static_cast<std::int32_t>(pair.input[i]));
      } else {
        restored.insert(restored.end(), span->second.begin(), span->second.end());
      }
    }
    EXPECT_EQ(restored, text);
  }
}

// All partitions of 6 left tokens into 2 spans are equally likely: the first has 1 to 5 tokens.
TEST(Denoising, PartitionsAreUniform) {
  const NoiseAmount amount{.4, 2};  // of 10 tokens, 4 in 2 spans
  std::map<std::size_t, int> first_left, first_hidden;
  constexpr int kTrials = 20000;
  for (int trial = 0; trial < kTrials; ++trial) {
    Draws draws({1, static_cast<std::uint64_t>(trial)});
    const std::vector<bool> mask = random_spans(10, amount, draws);
    const auto hidden = static_cast<std::size_t>(std::find(mask.begin(), mask.end(), true) - mask.begin());
    ++first_left[hidden];
    ++first_hidden[static_cast<std::size_t>(
                       std::find(mask.begin() + static_cast<std::ptrdiff_t>(hidden), mask.end(), false) -
                       mask.begin()) -
                   hidden];
  }
  ASSERT_EQ(first_left.size(), 5u);
  ASSERT_EQ(first_hidden.size(), 3u);
  for (const auto& [length, count] : first_left) EXPECT_NEAR(count, kTrials / 5.0, 300) << length;
  for (const auto& [length, count] : first_hidden) EXPECT_NEAR(count, kTrials / 3.0, 350) << length;
}

TEST(Denoising, PoissonHasItsProbabilities) {
  Draws draws({4, 4});
  constexpr int kTrials = 100000;
  std::map<std::int64_t, int> counts;
  for (int trial = 0; trial < kTrials; ++trial) ++counts[draws.poisson(3)];
  for (std::int64_t n = 0; n < 9; ++n) {
    const double p = std::pow(3.0, n) * std::exp(-3.0) / std::tgamma(n + 1.0);
    EXPECT_NEAR(counts[n], kTrials * p, 5 * std::sqrt(kTrials * p)) << n;
  }
}

TEST(Denoising, InfillingReplacesSpansByOneMaskEach) {
  std::int64_t masks = 0, hidden = 0;
  std::map<std::size_t, std::int64_t> places;  // how often each token was hidden
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const auto text = numbered_text(seed < 20 ? static_cast<std::int64_t>(seed) + 1 : 60);
    const std::vector<std::int64_t> wide(text.begin(), text.end());
    Draws draws({seed, 5});
    const std::vector<std::int64_t> noised = infill(wide, kMaskId, {.3, 3}, draws);
    EXPECT_LE(noised.size(), text.size());
    std::vector<std::int64_t> left;
    std::copy_if(noised.begin(), noised.end(), std::back_inserter(left),
                 [](std::int64_t id) { return id != kMaskId; });
    const std::int64_t expected = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::nearbyint(static_cast<double>(text.size()) * .3)));
    EXPECT_EQ(text.size() - left.size(), static_cast<std::size_t>(expected));
    EXPECT_TRUE(std::is_sorted(left.begin(), left.end()));  // the tokens that are left, in their order
    EXPECT_GE(noised.size(), left.size() + 1);
    if (seed < 20) continue;
    masks += static_cast<std::int64_t>(noised.size() - left.size());
    hidden += expected;
    for (std::size_t i = 0; i < text.size(); ++i)
      places[i] += !std::binary_search(left.begin(), left.end(), text[i]);
  }
  // The spans of 18 hidden tokens: 6 full ones on average but for the cut one, and empty ones.
  EXPECT_NEAR(static_cast<double>(hidden) / static_cast<double>(masks), 18.0 / 6.6, 0.15);
  // No place is preferred, but near the ends of the text, which fewer spans reach.
  double middle = 0;
  for (std::size_t i = 10; i < 50; ++i) middle += static_cast<double>(places[i]) / 40;
  EXPECT_NEAR(middle / 1980, .32, .02);
  for (std::size_t i = 10; i < 50; ++i) EXPECT_NEAR(static_cast<double>(places[i]), middle, 100) << i;
}

// Where most spans are empty, there are no more of them than hidden tokens, so that no text grows.
TEST(Denoising, EmptySpansAreNoMoreThanHiddenTokens) {
  const auto text = numbered_text(60);
  const std::vector<std::int64_t> wide(text.begin(), text.end());
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Draws draws({seed, 5});
    EXPECT_EQ(infill(wide, kMaskId, {.3, .2}, draws).size(), text.size()) << seed;
  }
}

TEST(Denoising, SentencesArePermuted) {
  const NoiseTokens tokens = noise_vocabulary();
  // A full stop inside a word, "0.1", ends no sentence.
  const std::vector<std::int32_t> text{30, 31, 10, 40, 10, 11, 41, 10, 50, 51, 52};
  const std::vector<std::vector<std::int64_t>> sentences{{30, 31, 10}, {40, 10, 11, 41, 10}, {50, 51, 52}};
  std::map<std::vector<std::int64_t>, int> orders;
  std::vector<int> order{0, 1, 2};
  do {
    std::vector<std::int64_t> joined;
    for (const int i : order)
      joined.insert(joined.end(), sentences[static_cast<std::size_t>(i)].begin(),
                    sentences[static_cast<std::size_t>(i)].end());
    orders[joined] = 0;
  } while (std::next_permutation(order.begin(), order.end()));
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Draws draws({seed, 6});
    const auto found = orders.find(permute_sentences(text, tokens, draws));
    ASSERT_NE(found, orders.end());
    ++found->second;
  }
  for (const auto& [joined, count] : orders) EXPECT_NEAR(count, 500, 100);
}

TEST(Denoising, BartsTargetIsTheText) {
  NoiseTokens tokens = noise_vocabulary();
  tokens.begin = {0};
  const std::vector<std::int32_t> text = numbered_text(40);
  Draws draws({8, 8}), same({8, 8}), other({8, 9});
  const NoisePair pair = corrupt_bart(text, tokens, {.3, 3}, true, draws);
  EXPECT_EQ(pair.target.size(), 42u);
  EXPECT_EQ(pair.target.front(), 0);
  EXPECT_EQ(pair.target.back(), kEndId);
  EXPECT_TRUE(std::equal(text.begin(), text.end(), pair.target.begin() + 1));
  EXPECT_EQ(pair.input.front(), 0);
  EXPECT_EQ(pair.input.back(), kEndId);
  EXPECT_EQ(corrupt_bart(text, tokens, {.3, 3}, true, same).input, pair.input);
  EXPECT_NE(corrupt_bart(text, tokens, {.3, 3}, true, other).input, pair.input);
}

}  // namespace
}  // namespace heed
