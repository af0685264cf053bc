// Pairs are cut alike, and equal prompts are held out together.
#include "data/preference_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using testing::ElementsAre;

// Of a line of three words, prompt, chosen and rejected, whose letters are tokens.
TextCorpus corpus_of(const std::string& lines) {
  const TemporaryFolder folder;
  spill(folder / "pairs", lines);
  DataOptions data;
  data.format = "text";
  data.documents = "line";
  TextReader reader(folder / "pairs", data);
  return tokenize_texts(
      reader,
      [](const TextPart& part) {
        const std::size_t one = part.text.find(' '), two = part.text.rfind(' ');
        const std::string prompt = part.text.substr(0, one);
        std::vector<TokenizedPart> both;
        for (const std::string& answer :
             {part.text.substr(one + 1, two - one - 1), part.text.substr(two + 1)}) {
          const std::string whole = prompt + answer;
          both.push_back({{whole.begin(), whole.end()}, {{std::ssize(prompt), std::ssize(whole)}}});
        }
        return both;
      },
      folder.path());
}

std::vector<std::string> texts(const TextCorpus& corpus, const std::vector<PreferencePair>& pairs) {
  std::vector<std::string> all;
  for (const PreferencePair& pair : pairs) {
    for (const DocumentPart& part : {pair.chosen, pair.rejected})
      all.emplace_back(corpus.ids().begin() + part.begin, corpus.ids().begin() + part.end);
  }
  return all;
}

TEST(PreferencePairs, AreTruncatedOrLeftOut) {
  const TextCorpus corpus = corpus_of("ab cd ef\nab cde f\nabcde f g\na bcd bce\na b b\n");
  const PreferencePairs found = preference_pairs(corpus, 3, LongDocuments::truncate);
  EXPECT_THAT(texts(corpus, found.pairs), ElementsAre("abc", "abe", "abc", "abf"));
  EXPECT_EQ(found.all, 5);
  EXPECT_EQ(found.longer, 4);
  EXPECT_EQ(found.longest, 6);
  EXPECT_EQ(found.without_targets, 1);
  EXPECT_EQ(found.equal, 2);  // one of them in what is kept
  const PreferencePairs whole = preference_pairs(corpus, 5, LongDocuments::skip);
  EXPECT_THAT(texts(corpus, whole.pairs), ElementsAre("abcd", "abef", "abcde", "abf", "abcd", "abce"));
  EXPECT_EQ(whole.longer, 1);
}

TEST(PreferencePairs, OfEqualPromptsStayTogether) {
  const TextCorpus corpus = corpus_of("p a b\nq a b\np c d\nr a b\nq e f\n");
  std::vector<PreferencePair> pairs = preference_pairs(corpus, 9, LongDocuments::skip).pairs;
  std::vector<PreferencePair> rest = pairs;
  const std::vector<PreferencePair> dev = hold_out_prompts(corpus, 0.1, rest);
  EXPECT_THAT(texts(corpus, dev), ElementsAre("qa", "qb", "qe", "qf"));
  EXPECT_THAT(texts(corpus, rest), ElementsAre("pa", "pb", "pc", "pd", "ra", "rb"));
  rest = pairs;
  EXPECT_EQ(hold_out_prompts(corpus, 0.5, rest).size(), 3u);  // q and r
  rest = pairs;
  EXPECT_EQ(hold_out_prompts(corpus, 0.9, rest).size(), 3u);  // a prompt is left to learn from
  pairs.erase(pairs.begin() + 1, pairs.begin() + 2);
  pairs.resize(2);
  EXPECT_ERROR(hold_out_prompts(corpus, 0.5, pairs), "expected pairs of at least 2 prompts, got 1");
}

}  // namespace
}  // namespace heed
