#include "generate/processors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heed/io/json.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

/// Returns the options of a case, read as if from a model's file.
GenerationOptions options_of(const std::string& json) {
  const TemporaryFolder folder;
  spill(folder / "generation_config.json", json);
  std::vector<std::string> unused;
  const GenerationOptions options = load_generation_options(folder.path(), &unused);
  EXPECT_TRUE(unused.empty()) << json;
  return options;
}

class ProcessorFixture : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, ProcessorFixture,
                         ::testing::Values("processors.json", "processors_more.json",
                                           "processors_entropy.json"));

TEST_P(ProcessorFixture, ChangesScoresAsTransformersDoes) {
  const Config fixture = Config::load(std::filesystem::path(HEED_FIXTURES) / "generate" / GetParam());
  const Config cases = fixture.sub("cases");
  ASSERT_GT(cases.names().size(), 40u);
  for (const std::string& index : cases.names()) {
    const Config one = cases.sub(index);
    const std::string name = one.required_string("name");
    const GenerationOptions options = options_of(one.required_string("options"));
    const auto sequence = one.integers("sequence");
    const auto before = one.numbers("scores"), expected = one.numbers("expected");
    std::vector<float> scores(before.begin(), before.end());
    const std::vector<std::int64_t> source = one.integers("source");
    const generate::Processors processors(options, one.required_integer("prompt_length"),
                                          one.required_integer("max_length"), source);
    const std::vector<float> unchanged = scores;
    processors.apply(sequence, scores);
    if (!processors.active(static_cast<std::int64_t>(sequence.size()))) {
      EXPECT_EQ(scores, unchanged) << name;
    }
    for (std::size_t v = 0; v < scores.size(); ++v) {
      if (expected[v] < -1e37) {
        EXPECT_TRUE(std::isinf(scores[v]) && scores[v] < 0) << name << " token " << v << ": " << scores[v];
      } else {
        EXPECT_NEAR(scores[v], expected[v], 2e-6 * (1 + std::abs(expected[v]))) << name << " token " << v;
      }
    }
  }
}

/// The probabilities that the page of heed explore makes of the same numbers (scripts/check-explore.sh).
TEST(Processors, DrawAsThePageOfExploreSays) {
  const Config fixture = Config::load(std::filesystem::path(HEED_FIXTURES) / "explore" / "sampling.json");
  const Config cases = fixture.sub("cases");
  const auto logits = fixture.numbers("logits");
  ASSERT_EQ(cases.names().size(), 5u);
  for (const std::string& index : cases.names()) {
    const Config one = cases.sub(index);
    GenerationOptions options;
    options.do_sample = true;
    options.temperature = one.required_number("temperature");
    options.top_k = one.required_integer("top_k");
    options.top_p = one.required_number("top_p");
    std::vector<float> scores(logits.begin(), logits.end());
    generate::Processors(options, 1, 100).apply(std::vector<std::int64_t>{0}, scores);
    double sum = 0;
    for (const float score : scores) sum += std::exp(static_cast<double>(score));
    const auto expected = one.numbers("probabilities");
    for (std::size_t v = 0; v < scores.size(); ++v)
      EXPECT_NEAR(std::exp(static_cast<double>(scores[v])) / sum, expected[v], 1e-6)
          << index << " token " << v;
  }
}

TEST(Processors, InvalidScoresBecomeNumbersWhereThatIsAskedFor) {
  const float inf = INFINITY, largest = std::numeric_limits<float>::max();
  const GenerationOptions options{
      .bad_words_ids = {{4}}, .suppress_tokens = {5}, .remove_invalid_values = true};
  std::vector<float> scores = {NAN, inf, -inf, 1.5f, 2, 3};
  generate::Processors(options, 1, 9).apply(std::vector<std::int64_t>{1}, scores);
  EXPECT_EQ(scores, (std::vector<float>{0, largest, -largest, 1.5f, -largest, -inf}));
}

TEST(Processors, ABannedEndStaysBannedHoweverItsScoreWouldGrow) {
  const GenerationOptions options{
      .min_new_tokens = 5, .exponential_decay_length_penalty = {{0, 1.5}}, .eos_token_id = {2}};
  std::vector<float> scores = {1, 2, 3, 4};
  generate::Processors(options, 1, 9).apply(std::vector<std::int64_t>{1, 1, 1}, scores);
  EXPECT_EQ(scores, (std::vector<float>{1, 2, -INFINITY, 4}));
}

}  // namespace
}  // namespace heed
