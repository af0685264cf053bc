// Greedy search, sampling and captured attention on a model whose scores are hashes, and refused inputs.
#include "heed/generate/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "generate/hash_decoding.h"
#include "generate/processors.h"
#include "heed/error.h"
#include "reference/error.h"

namespace heed {
namespace {

using testing::HashDecoding;
using testing::HashModel;
using testing::kStart;
using testing::run;

TEST(GreedySearch, TakesTheBestTokenUntilTheEnd) {
  const HashModel model{8, 3};
  const GenerationOptions options{.max_new_tokens = 12, .eos_token_id = {0, 2}};
  const std::vector<std::int64_t> sources{0, 1, 2, 3, 4, 5};
  const auto found = run(model, sources, options);
  std::set<std::size_t> lengths;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    std::vector<std::int64_t> sequence{kStart};
    double score = 0;
    for (int t = 0; t < 12; ++t) {
      const auto log_probs = model.log_probs(model.state_after(sources[i], sequence));
      const auto best = std::max_element(log_probs.begin(), log_probs.end());
      score += static_cast<double>(*best);
      sequence.push_back(best - log_probs.begin());
      if (sequence.back() == 0 || sequence.back() == 2) break;
    }
    ASSERT_EQ(found[i].size(), 1u);
    EXPECT_EQ(found[i][0].ids, std::vector<std::int64_t>(sequence.begin() + 1, sequence.end()));
    EXPECT_NEAR(found[i][0].score, score, 1e-4);
    EXPECT_EQ(found[i][0].score, found[i][0].beam_score);
    lengths.insert(found[i][0].ids.size());
  }
  EXPECT_GT(lengths.size(), 2u) << "rows should have ended at different steps";
}

TEST(Search, RowsThatAreDoneLeaveTheBatch) {
  const HashModel model{8, 3};
  const GenerationOptions options{.max_new_tokens = 12, .eos_token_id = {0, 2}};
  HashDecoding decoding(model, {0, 1, 2, 3, 4, 5});
  Context context;
  const auto found = search(decoding, Tensor::full({6, 1}, kStart, DType::i64), options, {}, context);
  std::int64_t tokens = 0;
  for (const auto& row : found) tokens += static_cast<std::int64_t>(row[0].ids.size());
  EXPECT_EQ(decoding.rows_fed, tokens);
}

TEST(Search, PromptsMayHaveSeveralTokens) {
  const HashModel model{8, 5};
  const std::vector<std::int64_t> prompt{kStart, 3, 5};
  for (const std::int64_t beams : {1, 4}) {
    HashDecoding decoding(model, {7});
    Context context;
    const GenerationOptions options{.max_length = 6, .num_beams = beams};
    const auto found = search(decoding, Tensor::from(prompt, {1, 3}), options, {}, context);
    ASSERT_EQ(found[0][0].ids.size(), 3u);
    std::vector<std::int64_t> sequence = prompt;
    double score = 0;
    for (const std::int64_t id : found[0][0].ids) {
      score +=
          static_cast<double>(model.log_probs(model.state_after(7, sequence))[static_cast<std::size_t>(id)]);
      sequence.push_back(id);
    }
    EXPECT_NEAR(found[0][0].score, score, 1e-4);
  }
}

/// Compares a hypothesis's attention with the values computed from its tokens alone.
void expect_attention(const HashModel& model, std::int64_t source, const Hypothesis& h) {
  ASSERT_EQ(h.captured.size(), 2u);
  const auto length = static_cast<std::int64_t>(h.ids.size());
  const Tensor& fixed = h.captured.at("fixed.weights");
  const Tensor& growing = h.captured.at("growing.weights");
  ASSERT_EQ(fixed.shape(), (Shape{2, length, 3}));
  ASSERT_EQ(growing.shape(), (Shape{2, length, length}));
  std::vector<std::int64_t> sequence{kStart};
  for (std::int64_t t = 0; t < length; ++t) {
    const std::uint64_t state = model.state_after(source, sequence);
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t k = 0; k < 3; ++k) {
        EXPECT_EQ(fixed.data<float>()[(head * length + t) * 3 + k], HashModel::attention(state, head, k));
      }
      for (std::int64_t k = 0; k < length; ++k) {
        const float expected = k <= t ? HashModel::attention(state, head, k) : 0.0f;
        EXPECT_EQ(growing.data<float>()[(head * length + t) * length + k], expected);
      }
    }
    sequence.push_back(h.ids[static_cast<std::size_t>(t)]);
  }
}

TEST(Capture, AttentionFollowsTheHypothesisThroughEveryReordering) {
  for (const std::int64_t beams : {1, 5}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const HashModel model{9, seed, 1.0f};
      const GenerationOptions options{
          .max_new_tokens = 8, .num_beams = beams, .num_return_sequences = beams, .eos_token_id = {0}};
      const auto found = run(model, {3, 1, 8}, options, {.capture = {"*.weights"}});
      const std::vector<std::int64_t> sources{3, 1, 8};
      for (std::size_t i = 0; i < 3; ++i) {
        for (const Hypothesis& h : found[i]) expect_attention(model, sources[i], h);
      }
    }
  }
}

TEST(Capture, RefusesPatternsThatMatchNothing) {
  EXPECT_ERROR(run({}, {0}, {.max_new_tokens = 2}, {.capture = {"no.such.tap"}}),
               "no value of the model matches no.such.tap");
}

TEST(Sampling, FollowsTheDistribution) {
  const HashModel model{6, 2, 1.0f};
  constexpr int kDraws = 6000;
  const GenerationOptions options{
      .max_new_tokens = 1, .num_return_sequences = kDraws, .do_sample = true, .seed = 1};
  const auto found = run(model, {0}, options);
  std::vector<double> counts(6);
  for (const Hypothesis& h : found[0]) ++counts[static_cast<std::size_t>(h.ids.at(0))];
  const auto log_probs = model.log_probs(model.state_after(0, {kStart}));
  double chi_square = 0;
  for (std::size_t v = 0; v < 6; ++v) {
    const double expected = kDraws * std::exp(static_cast<double>(log_probs[v]));
    chi_square += (counts[v] - expected) * (counts[v] - expected) / expected;
  }
  EXPECT_LT(chi_square, 20.5);  // exceeded by 0.1 % of correct samples with 5 degrees of freedom
}

TEST(Sampling, DependsOnSeedAndIdentityOnly) {
  const HashModel model{20, 2, 1.0f};
  GenerationOptions options{.max_new_tokens = 10, .eos_token_id = {0}, .do_sample = true, .seed = 5};
  for (const std::int64_t beams : {1, 3}) {
    options.num_beams = beams;
    const auto together = run(model, {4, 4, 6}, options, {.sample_ids = {10, 11, 12}});
    const auto alone = run(model, {4}, options, {.sample_ids = {11}});
    EXPECT_EQ(alone[0][0].ids, together[1][0].ids);
    EXPECT_NE(together[0][0].ids, together[1][0].ids);
    GenerationOptions other = options;
    other.seed = 6;
    EXPECT_NE(run(model, {4}, other, {.sample_ids = {11}})[0][0].ids, alone[0][0].ids);
  }
}

TEST(Sampling, BeamsAreDrawnWithoutReplacement) {
  const HashModel model{6, 2, 1.0f};
  const auto log_probs = model.log_probs(model.state_after(0, {kStart}));
  constexpr int kDraws = 4000;
  // All six tokens are sampled in random order; the hypotheses are then the better ones of the first two.
  double first_pair = 0;
  GenerationOptions options{
      .max_new_tokens = 1, .num_beams = 2, .num_return_sequences = 2, .do_sample = true};
  for (int i = 0; i < kDraws; ++i) {
    options.seed = static_cast<std::uint64_t>(i);
    const auto found = run(model, {0}, options);
    ASSERT_NE(found[0][0].ids, found[0][1].ids);
    const std::set<std::int64_t> pair{found[0][0].ids[0], found[0][1].ids[0]};
    if (pair == std::set<std::int64_t>{0, 1}) ++first_pair;
  }
  const double a = std::exp(static_cast<double>(log_probs[0])),
               b = std::exp(static_cast<double>(log_probs[1]));
  const double expected = a * b / (1 - a) + b * a / (1 - b);
  EXPECT_NEAR(first_pair / kDraws, expected, 4 * std::sqrt(expected * (1 - expected) / kDraws));
}

TEST(Search, EndsWhenEveryTokenIsRuledOut) {
  const HashModel model{3, 1};
  GenerationOptions options{.max_new_tokens = 10, .no_repeat_ngram_size = 1};
  for (const std::int64_t beams : {1, 2}) {
    options.num_beams = beams;
    const auto found = run(model, {0}, options);
    ASSERT_EQ(found[0].size(), 1u);
    EXPECT_THAT(found[0][0].ids, ::testing::UnorderedElementsAre(0, 2));  // the prompt was 1
    EXPECT_TRUE(std::isfinite(found[0][0].beam_score));
  }
}

class BrokenDecoding final : public Decoding {
 public:
  explicit BrokenDecoding(float last) : last_(last) {}
  Tensor step(const Tensor& ids, Context&) override {
    const Tensor logits = Tensor::zeros({ids.size(0), 4});
    logits.data<float>()[3] = last_;
    return logits;
  }
  void reorder(std::span<const std::int64_t>) override {}
  std::int64_t rows() const override { return 1; }
  std::int64_t length() const override { return 0; }

 private:
  float last_;
};

TEST(Search, ContinuesADecodingThatHasReadPartOfThePrompt) {
  const HashModel model{8, 5};
  const std::vector<std::vector<std::int64_t>> prompts{{kStart, 3, 5}, {kStart, 3, 4, 2}};
  const GenerationOptions options{.max_new_tokens = 4};
  Context context;
  std::vector<std::vector<Hypothesis>> whole;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    HashDecoding decoding(model, {static_cast<std::int64_t>(i)});
    whole.push_back(search(decoding, std::span(&prompts[i], 1), options, {}, context).front());
    HashDecoding begun(model, {static_cast<std::int64_t>(i)});
    begun.step(Tensor::from(std::vector<std::int64_t>{kStart, 3}, {1, 2}), context);
    EXPECT_EQ(search(begun, std::span(&prompts[i], 1), options, {}, context).front()[0].ids, whole[i][0].ids);
    HashDecoding done(model, {static_cast<std::int64_t>(i)});
    done.step(Tensor::from(prompts[i], {1, std::ssize(prompts[i])}), context);
    EXPECT_ERROR(search(done, std::span(&prompts[i], 1), options, {}, context),
                 "that has not read the prompts to their ends");
  }
}

TEST(Search, CallsTheCallersProcessor) {
  const HashModel model{8, 5};
  for (const std::int64_t beams : {1, 3}) {
    for (const bool draws : {false, true}) {
      HashDecoding decoding(model, {7, 8});
      Context context;
      SearchHooks hooks;
      // Row 0 may generate token 3 alone, row 1 the number of its tokens so far.
      hooks.process = [](std::size_t row, std::span<const std::int64_t> ids, std::span<float> scores) {
        for (std::size_t i = 0; i < scores.size(); ++i)
          if (i != (row == 0 ? 3 : ids.size())) scores[i] = generate::kNever;
      };
      const GenerationOptions options{.max_new_tokens = 3, .num_beams = beams, .do_sample = draws};
      const auto found = search(decoding, Tensor::full({2, 1}, kStart, DType::i64), options, hooks, context);
      EXPECT_EQ(found[0][0].ids, (std::vector<std::int64_t>{3, 3, 3}));
      EXPECT_EQ(found[1][0].ids, (std::vector<std::int64_t>{1, 2, 3}));
    }
  }
}

TEST(Sampling, KnowsTheProbabilityAtTemperatureOne) {
  const HashModel model{8, 5};
  for (const double temperature : {0.3, 1.0, 2.5}) {
    const GenerationOptions options{
        .max_new_tokens = 4, .do_sample = true, .temperature = temperature, .top_k = 0};
    const Hypothesis found = run(model, {7}, options)[0][0];
    std::vector<std::int64_t> sequence{kStart};
    double sum = 0;
    for (const std::int64_t id : found.ids) {
      sum +=
          static_cast<double>(model.log_probs(model.state_after(7, sequence))[static_cast<std::size_t>(id)]);
      sequence.push_back(id);
    }
    EXPECT_NEAR(found.log_probability, sum, 1e-4);
    if (temperature == 1.0) {
      EXPECT_EQ(found.log_probability, found.score);
    } else {
      EXPECT_GT(std::abs(found.log_probability - found.score), 1e-3);
    }
  }
}

TEST(Search, RefusesScoresThatAreNoNumbers) {
  Context context;
  const Tensor prompt = Tensor::full({1, 1}, 1, DType::i64);
  for (const std::int64_t beams : {1, 2}) {
    for (const bool draws : {false, true}) {
      BrokenDecoding decoding(NAN);  // one of four scores is enough
      EXPECT_ERROR(search(decoding, prompt, {.max_new_tokens = 3, .num_beams = beams, .do_sample = draws}, {},
                          context),
                   draws ? "expected finite scores to sample from, got nan"
                         : "expected the model's scores to be numbers, got NaN");
    }
  }
}

TEST(Sampling, RefusesScoresThatATemperatureMadeInfinite) {
  Context context;
  const Tensor prompt = Tensor::full({1, 1}, 1, DType::i64);
  for (const double temperature : {1e-300, 1e-39}) {
    BrokenDecoding decoding(1.0f);
    const GenerationOptions options{.max_new_tokens = 3, .do_sample = true, .temperature = temperature};
    EXPECT_ERROR(search(decoding, prompt, options, {}, context),
                 "expected finite scores to sample from, got");
  }
}

TEST(Search, RefusesPromptsThatDoNotFit) {
  const HashModel model;
  Context context;
  HashDecoding decoding(model, {0, 1});
  EXPECT_ERROR(
      search(decoding, Tensor::full({1, 1}, 1, DType::i64), {}, {}, context),
      "expected a decoding of 1 rows that has not read the prompts to their ends, got one of 2 rows after 0");
  EXPECT_ERROR(search(decoding, Tensor::full({2, 1}, 1, DType::f32), {}, {}, context),
               "expected a prompt i64[rows, tokens]");
  EXPECT_ERROR(search(decoding, Tensor::full({2, 3}, 1, DType::i64), {.max_length = 3}, {}, context),
               "expected room for a new token, got max_length 3 for a prompt of 3 tokens");
  HashDecoding fresh(model, {0, 1});
  EXPECT_ERROR(search(fresh, Tensor::full({2, 1}, 6, DType::i64), {}, {}, context),
               "expected a prompt of tokens below 6, got 6");
  EXPECT_ERROR(run(model, {0}, {.forced_eos_token_id = {6}}),
               "forced_eos_token_id: expected token ids below the vocabulary's size 6, got 6");
  EXPECT_NO_THROW(run(model, {0}, {.suppress_tokens = {6}}));
  HashDecoding none(model, {});
  EXPECT_TRUE(search(none, Tensor::zeros({0, 1}, DType::i64), {}, {}, context).empty());
}

}  // namespace
}  // namespace heed
