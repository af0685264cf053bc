// ROUGE against the rouge-score package's numbers for the same texts, and stems against NLTK's.
#include "heed/score/rouge.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "reference/error.h"
#include "reference/json.h"
#include "score/segment.h"

namespace heed {
namespace {

const nlohmann::json& rouge_fixture() {
  static const nlohmann::json loaded = read_json(HEED_FIXTURES "/score/rouge.json");
  return loaded;
}

const std::array<std::pair<const char*, RougeScore RougeScores::*>, 4> kRougeKinds{
    {{"rouge1", &RougeScores::rouge1},
     {"rouge2", &RougeScores::rouge2},
     {"rougeL", &RougeScores::rougeL},
     {"rougeLsum", &RougeScores::rougeLsum}}};

TEST(Rouge, EqualsRougeScore) {
  for (const auto& row : rouge_fixture()["cases"]) {
    for (const bool stemmer : {false, true}) {
      const auto& expected = row[stemmer ? "stemmed" : "plain"];
      const RougeScores scores = sentence_rouge(row["hypothesis"], row["references"], {.stemmer = stemmer});
      for (const auto& [name, kind] : kRougeKinds) {
        SCOPED_TRACE(row["hypothesis"].get<std::string>() + " " + name);
        EXPECT_NEAR((scores.*kind).precision, 100 * expected[name][0].get<double>(), 1e-9);
        EXPECT_NEAR((scores.*kind).recall, 100 * expected[name][1].get<double>(), 1e-9);
        EXPECT_NEAR((scores.*kind).f1, 100 * expected[name][2].get<double>(), 1e-9);
      }
    }
  }
}

TEST(Rouge, CorpusIsTheMeanOfItsTexts) {
  const std::vector<std::string> hypotheses{"the cat sat", "a dog ran", "nothing"};
  const std::vector<std::vector<std::string>> references{{"the cat", "the dog sat", "something else"},
                                                         {"the cat sat here", "", "nothing"}};
  const RougeScores scores = corpus_rouge(hypotheses, references);
  // F1 of the better reference: 6/7, 1/3, 1. An empty reference counts nothing.
  EXPECT_NEAR(scores.rouge1.f1, 100 * (6.0 / 7 + 1.0 / 3 + 1) / 3, 1e-9);
  EXPECT_NEAR(scores.rouge1.precision, 100 * (1 + 1.0 / 3 + 1) / 3, 1e-9);
  EXPECT_NEAR(scores.rouge1.recall, 100 * (3.0 / 4 + 1.0 / 3 + 1) / 3, 1e-9);
  EXPECT_EQ(scores.format(), "ROUGE-1 = 73.02  ROUGE-2 = 26.67  ROUGE-L = 73.02  ROUGE-Lsum = 73.02");
  EXPECT_TRUE(rouge_signature(2, {.stemmer = true}).starts_with("nrefs:2|stem:porter|version:heed-"));
}

TEST(Rouge, RefusesStreamsThatDoNotFit) {
  EXPECT_ERROR(corpus_rouge({"a"}, {{"a", "b"}}), "expected as many references as hypotheses (1), got 2");
  EXPECT_ERROR(corpus_rouge({}, {{}}), "rouge: no lines to score");
  EXPECT_ERROR(sentence_rouge("a", {}), "rouge: no references");
}

TEST(Porter, StemsEqualNltk) {
  for (const auto& [word, stem] : rouge_fixture()["stems"].items())
    EXPECT_EQ(score::porter_stem(word), stem.get<std::string>()) << word;
}

}  // namespace
}  // namespace heed
