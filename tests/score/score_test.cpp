// BLEU and chrF against the sacrebleu package's numbers for the same lines.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/score/bleu.h"
#include "heed/score/chrf.h"
#include "reference/error.h"
#include "reference/json.h"

namespace heed {
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;

const json& fixture() {
  static const json loaded = read_json(HEED_FIXTURES "/score/score.json");
  return loaded;
}

Lines references_of(const std::vector<Lines>& streams, std::size_t line) {
  Lines references;
  for (const Lines& stream : streams) references.push_back(stream[line]);
  return references;
}

void expect_close(double got, double expected, const std::string& what) {
  EXPECT_NEAR(got, expected, 1e-10 * std::max(1.0, std::abs(expected))) << what;
}

/// Returns a signature without its version, which differs between packages.
std::string without_version(const std::string& signature) {
  return signature.substr(0, signature.rfind('|'));
}

BleuOptions bleu_options(const json& row) {
  BleuOptions options;
  options.tokenizer = bleu_tokenizer_from_name(row["tokenizer"].get<std::string>());
  options.smoothing = bleu_smoothing_from_name(row["smoothing"].get<std::string>());
  if (!row["smooth_value"].is_null()) options.smooth_value = row["smooth_value"].get<double>();
  options.lowercase = row["lowercase"];
  options.effective_order = row["effective_order"];
  return options;
}

ChrfOptions chrf_options(const json& row) {
  return {row["char_order"], row["word_order"], row["beta"], row["lowercase"]};
}

TEST(Bleu, CorpusEqualsSacrebleu) {
  int checked = 0;
  for (const json& group : fixture()["groups"]) {
    const Lines hypotheses = group["hypotheses"];
    const std::vector<Lines> references = group["references"];
    for (const json& row : group["bleu"]) {
      const std::string what = group["name"].get<std::string>() + " " + row["signature"].get<std::string>();
      const BleuOptions options = bleu_options(row);
      const BleuScore score = corpus_bleu(hypotheses, references, options);
      expect_close(score.score, row["score"], what);
      expect_close(score.brevity_penalty, row["bp"], what);
      for (std::size_t n = 0; n < 4; ++n) expect_close(score.precisions[n], row["precisions"][n], what);
      EXPECT_EQ(score.hypothesis_length, row["sys_len"].get<std::int64_t>()) << what;
      EXPECT_EQ(score.reference_length, row["ref_len"].get<std::int64_t>()) << what;
      EXPECT_EQ(score.format(), row["text"].get<std::string>()) << what;
      const std::string signature = bleu_signature(static_cast<std::int64_t>(references.size()), options);
      EXPECT_EQ(without_version(signature), without_version(row["signature"])) << what;
      ++checked;
    }
  }
  EXPECT_EQ(checked, 7 * 96);
}

TEST(Bleu, SentencesEqualSacrebleu) {
  int checked = 0;
  for (const json& group : fixture()["groups"]) {
    const Lines hypotheses = group["hypotheses"];
    const std::vector<Lines> references = group["references"];
    for (const json& row : group["bleu"]) {
      if (!row.contains("sentences")) continue;
      for (std::size_t i = 0; i < hypotheses.size(); ++i) {
        const BleuScore score = sentence_bleu(hypotheses[i], references_of(references, i), bleu_options(row));
        expect_close(score.score, row["sentences"][i],
                     hypotheses[i] + " | " + references[0][i] + " " + row["signature"].get<std::string>());
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 600);
}

TEST(Chrf, CorpusEqualsSacrebleu) {
  for (const json& group : fixture()["groups"]) {
    const Lines hypotheses = group["hypotheses"];
    const std::vector<Lines> references = group["references"];
    for (const json& row : group["chrf"]) {
      const std::string what = group["name"].get<std::string>() + " " + row["signature"].get<std::string>();
      const ChrfScore score = corpus_chrf(hypotheses, references, chrf_options(row));
      expect_close(score.score, row["score"], what);
      EXPECT_EQ(score.format(), row["text"].get<std::string>()) << what;
      const std::string signature =
          chrf_signature(static_cast<std::int64_t>(references.size()), chrf_options(row));
      EXPECT_EQ(without_version(signature), without_version(row["signature"])) << what;
    }
  }
}

TEST(Chrf, SentencesEqualSacrebleu) {
  int checked = 0;
  for (const json& group : fixture()["groups"]) {
    const Lines hypotheses = group["hypotheses"];
    const std::vector<Lines> references = group["references"];
    for (const json& row : group["chrf"]) {
      if (!row.contains("sentences")) continue;
      for (std::size_t i = 0; i < hypotheses.size(); ++i) {
        const ChrfScore score = sentence_chrf(hypotheses[i], references_of(references, i), chrf_options(row));
        expect_close(score.score, row["sentences"][i], hypotheses[i] + " | " + references[0][i]);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 400);
}

TEST(Bleu, SignatureNamesHeedAsTheVersion) {
  EXPECT_EQ(bleu_signature(1).rfind("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:heed-", 0), 0u);
  EXPECT_EQ(chrf_signature(2).rfind("nrefs:2|case:mixed|eff:yes|nc:6|nw:0|space:no|version:heed-", 0), 0u);
}

// Computed by hand: 5 of 6 words match, 3 of 5 bigrams, 2 of 4 trigrams, 1 of 3 4-grams; equal lengths.
TEST(Bleu, WorkedExample) {
  const BleuScore score = corpus_bleu({"a b c d x f"}, {{"a b c d e f"}});
  EXPECT_EQ(score.matches, (std::array<std::int64_t, 4>{5, 3, 2, 1}));
  EXPECT_EQ(score.totals, (std::array<std::int64_t, 4>{6, 5, 4, 3}));
  EXPECT_NEAR(score.score, 100 * std::pow(5.0 / 6 * 3 / 5 * 2 / 4 * 1 / 3, 0.25), 1e-9);
}

TEST(Bleu, MalformedTextIsScoredAsReplacementCharacters) {
  EXPECT_EQ(sentence_bleu("a\xff"
                          "b c d e",
                          {"a\xEF\xBF\xBD"
                           "b c d e"})
                .score,
            sentence_bleu("a b c d e", {"a b c d e"}).score);
}

TEST(Score, BadInputIsNamed) {
  EXPECT_EQ(error_of([] { corpus_bleu({}, {{}}); }), "bleu: no lines to score");
  EXPECT_EQ(error_of([] { corpus_chrf({"a"}, {}); }), "chrf: no references");
  EXPECT_EQ(error_of([] {
              corpus_bleu({"a", "b"}, {{"a", "b"}, {"a"}});
            }),
            "bleu: expected as many references as hypotheses (2), got 1 (the files must match line by line)");
  EXPECT_EQ(error_of([] { sentence_bleu("a", {}); }), "bleu: no references");
  EXPECT_EQ(error_of([] { sentence_chrf("a", {}); }), "chrf: no references");
  EXPECT_EQ(error_of([] { bleu_tokenizer_from_name("13b"); }),
            "bleu: expected tokenizer 13a, intl, char or none, got `13b`");
  EXPECT_EQ(error_of([] { bleu_smoothing_from_name("max"); }),
            "bleu: expected smoothing exp, floor, add-k or none, got `max`");
  EXPECT_EQ(error_of([] {
              sentence_chrf("a", {"a"}, {0, 0, 2, false});
            }),
            "chrf: expected orders of at least 0, one of them and beta positive, got characters 0, words 0, "
            "beta 2");
}

}  // namespace
}  // namespace heed
