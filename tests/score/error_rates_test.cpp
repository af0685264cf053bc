// Compares error rates with those of jiwer (tests/fixtures/score/error_rates.py).
#include "heed/score/error_rates.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reference/error.h"
#include "reference/json.h"

namespace heed {
namespace {

TEST(ErrorRates, AreThoseOfJiwer) {
  const auto wanted = read_json(std::string(HEED_FIXTURES) + "/score/error_rates.json");
  std::vector<std::string> hypotheses, references;
  for (const auto& text : wanted.at("texts")) {
    hypotheses.push_back(text.at("hypothesis"));
    references.push_back(text.at("reference"));
    SCOPED_TRACE(references.back());
    EXPECT_NEAR(word_error_rate({hypotheses.back()}, {references.back()}).percent(),
                text.at("wer").get<double>(), 1e-9);
    EXPECT_NEAR(character_error_rate({hypotheses.back()}, {references.back()}).percent(),
                text.at("cer").get<double>(), 1e-9);
  }
  EXPECT_NEAR(word_error_rate(hypotheses, references).percent(), wanted.at("wer").get<double>(), 1e-9);
  EXPECT_NEAR(character_error_rate(hypotheses, references).percent(), wanted.at("cer").get<double>(), 1e-9);
}

TEST(ErrorRates, OfNothing) {
  EXPECT_EQ(word_error_rate({}, {}).percent(), 0);
  EXPECT_EQ(word_error_rate({" "}, {""}).percent(), 0);
  EXPECT_EQ(word_error_rate({"a b"}, {""}).percent(), 100);
  EXPECT_EQ(word_error_rate({"a b"}, {""}).errors, 2);
  EXPECT_ERROR(word_error_rate({"a"}, {}), "expected as many references as hypotheses, 1, got 0");
}

}  // namespace
}  // namespace heed
