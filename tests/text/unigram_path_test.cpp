// Compares the path with the highest score with all segmentations of short texts.
#include "text/algorithms/unigram_path.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <random>
#include <string>

namespace heed {
namespace {

constexpr double kUnknownScore = -20;
constexpr std::int32_t kUnknown = 0;

struct Model {
  std::vector<std::string> tokens;  // token i has id i + 1
  std::vector<double> scores;
  Trie trie;
  void add(const std::string& token, double score) {
    tokens.push_back(token);
    scores.push_back(score);
    trie.insert(token, static_cast<std::uint32_t>(tokens.size()));
  }
};

// Returns the highest sum over all segmentations of text[at, ...). A single character that is not a token is
// unknown.
double best_by_enumeration(const Model& model, const std::string& text, std::size_t at = 0) {
  if (at == text.size()) return 0;
  double best = -std::numeric_limits<double>::infinity();
  bool single = false;
  for (std::size_t i = 0; i < model.tokens.size(); ++i) {
    if (text.compare(at, model.tokens[i].size(), model.tokens[i]) != 0) continue;
    single = single || model.tokens[i].size() == 1;
    best = std::max(best, model.scores[i] + best_by_enumeration(model, text, at + model.tokens[i].size()));
  }
  if (!single) best = std::max(best, kUnknownScore + best_by_enumeration(model, text, at + 1));
  return best;
}

std::optional<double> best_by_path(const Model& model, const std::string& text, std::int32_t unknown) {
  UnigramPath<double> path;
  const auto score_of = [&](std::int32_t id, std::size_t) {
    return model.scores[static_cast<std::size_t>(id) - 1];
  };
  if (!path.find(text, model.trie, score_of, unknown, kUnknownScore)) return std::nullopt;
  double sum = 0;
  for (std::size_t end = text.size(); end > 0;
       end = path[end].begin) {  // the sum of the scores of the path's tokens
    const std::int32_t id = path[end].id;
    sum += id == kUnknown ? kUnknownScore : score_of(id, 0);
  }
  EXPECT_NEAR(sum, path[text.size()].score, 1e-9);
  return sum;
}

TEST(UnigramPath, HasTheHighestSumOfAllSegmentations) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    Model model;
    for (const char* token : {"a", "b", "ab", "ba", "aab", "bb", "abab", "c", "ca", "bca"}) {
      if (random() % 3 > 0) model.add(token, -static_cast<double>(random() % 1000) / 100);
    }
    std::string text;
    for (std::size_t i = 1 + random() % 9; i > 0; --i) text += static_cast<char>('a' + random() % 3);
    const auto found = best_by_path(model, text, kUnknown);
    ASSERT_TRUE(found.has_value());
    EXPECT_NEAR(*found, best_by_enumeration(model, text), 1e-9) << text;
  }
}

TEST(UnigramPath, OfEqualSumsTheOneFoundFirst) {
  Model model;
  model.add("a", -1);
  model.add("aa", -2);
  UnigramPath<double> path;
  ASSERT_TRUE(path.find(
      "aa", model.trie,
      [&](std::int32_t id, std::size_t) { return model.scores[static_cast<std::size_t>(id) - 1]; }, kUnknown,
      kUnknownScore));
  EXPECT_EQ(path[2].id, 2);  // found at the text's beginning, before the second "a"
}

TEST(UnigramPath, UnknownCharactersAreWholeCharacters) {
  Model model;
  model.add("a", -1);
  UnigramPath<double> path;
  const auto score_of = [](std::int32_t, std::size_t) { return -1.0; };
  ASSERT_TRUE(path.find("a\u4e2d", model.trie, score_of, kUnknown, kUnknownScore));
  EXPECT_EQ(path[4].id, kUnknown);
  EXPECT_EQ(path[4].begin, 1u);
  EXPECT_FALSE(path.find("a\u4e2d", model.trie, score_of, -1, kUnknownScore));
}

}  // namespace
}  // namespace heed
