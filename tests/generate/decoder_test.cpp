// Compares continuations of decoders with those of Hugging Face transformers for the same prompts
// (tests/fixtures/decoders): prompts of different lengths together and alone, end tokens, sampling, text
// losses.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "generate/runs.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/generate/complete.h"
#include "heed/generate/perplexity.h"
#include "heed/generate/search.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"
#include "heed/text/tokenizer.h"
#include "heed/threads.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/tensors.h"

namespace heed {
namespace {

using Json = nlohmann::json;
using Prompts = std::vector<std::vector<std::int64_t>>;

/// Returns the prompts of a run without their left padding.
Prompts prompts_of(const Json& run) {
  const auto ids = run.at("inputs").at("input_ids").get<Prompts>();
  const auto mask = run.at("inputs").at("attention_mask").get<Prompts>();
  Prompts prompts;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto padding = std::count(mask[i].begin(), mask[i].end(), 0);
    prompts.emplace_back(ids[i].begin() + padding, ids[i].end());
  }
  return prompts;
}

/// One letter per id, and tokens of two letters too, so that stop texts may end inside a token.
class LetterTokenizer final : public Tokenizer {
 public:
  std::string decode(std::span<const std::int64_t> ids, bool) const override {
    std::string text;
    for (const std::int64_t id : ids) text += token(id);
    return text;
  }
  std::int64_t vocab_size() const override { return 512; }
  std::string token(std::int64_t id) const override {
    const std::string first(1, static_cast<char>('a' + id % 26));
    return id % 3 == 0 ? first + static_cast<char>('a' + id / 26) : first;
  }
  std::optional<std::int64_t> token_to_id(std::string_view) const override { return std::nullopt; }
  bool is_special(std::int64_t) const override { return false; }
  void save(const std::filesystem::path&) const override {}

 protected:
  Encoding tokenize(std::string_view text) const override {
    Encoding encoding;
    for (const char c : text) encoding.push(c - 'a', std::string(1, c), {0, 0});
    return encoding;
  }
  Encoding post_process(Encoding first, std::optional<Encoding>, bool) const override { return first; }
};

/// See encoder_decoder_test.cpp.
class Continuation : public ::testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path directory_ = std::filesystem::path(HEED_FIXTURES) / "decoders" / GetParam();
  std::unique_ptr<DecoderModel> model_ = load_as<DecoderModel>(directory_);
  void SetUp() override { set_threads(1); }
  void TearDown() override { set_threads(threads_); }
  int threads_ = threads();
};
INSTANTIATE_TEST_SUITE_P(All, Continuation,
                         ::testing::Values("gpt2", "gpt2-inverse-layer-scale", "llama", "llama3", "mistral",
                                           "qwen2", "qwen3", "qwen3-tied", "phi3", "phi3-longrope", "mixtral",
                                           "qwen3-moe", "qwen3-moe-mixed", "smollm3", "granite", "olmo2",
                                           "gemma2", "gemma3", "bloom", "mpt", "gpt-neox"));

TEST_P(Continuation, EveryRunFindsWhatTransformersFound) {
  const Json runs = read_json(directory_ / "generation.json").at("runs");
  ASSERT_GE(runs.size(), 9u);
  for (const Json& run : runs) {
    // All prompts in one batch, then each one alone.
    for (const std::int64_t batch_tokens : {100000, 1})
      expect_found(search_prompts(*model_, prompts_of(run), options_of_run(directory_, run), batch_tokens),
                   run);
  }
}

TEST_P(Continuation, PromptsGiveTheSameTogetherAndAlone) {
  const Prompts prompts = {{5, 6, 7}, {8}, {9, 10, 11, 12, 13, 14, 15, 16, 17}, {18, 19}, {20, 21, 22, 23}};
  for (const std::int64_t beams : {1, 3}) {
    for (const bool sample : {false, true}) {
      GenerationOptions options;
      options.max_new_tokens = 12;
      options.num_beams = beams;
      options.num_return_sequences = sample ? 2 : 1;
      options.do_sample = sample;
      options.seed = 3;
      options.cache_dtype = sample ? CacheDType::int8 : CacheDType::f32;
      const auto together = search_prompts(*model_, prompts, options, 100000),
                 alone = search_prompts(*model_, prompts, options, 1);
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        ASSERT_EQ(together[i].size(), alone[i].size());
        for (std::size_t s = 0; s < alone[i].size(); ++s) {
          EXPECT_EQ(together[i][s].ids, alone[i][s].ids) << "prompt " << i;
          EXPECT_EQ(together[i][s].score, alone[i][s].score) << "prompt " << i;
        }
      }
    }
  }
}

TEST_P(Continuation, LossesOfWindowsAddUp) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 50; ++i) ids.push_back(3 + (i * 37) % 200);
  const Json config = read_json(directory_ / "config.json");
  const auto nats_after = [&](std::int64_t begin, std::int64_t first, std::int64_t end) {  // by forward()
    TensorMap inputs;
    std::vector<std::int64_t> labels(ids.begin() + begin, ids.begin() + end);
    std::fill_n(labels.begin(), first - begin, -100);
    inputs["input_ids"] =
        Tensor::from(std::vector<std::int64_t>(ids.begin() + begin, ids.begin() + end), {1, end - begin});
    inputs["labels"] = Tensor::from(labels, {1, end - begin});
    Context context;
    const TensorMap outputs = model_->forward(inputs, {}, context);
    double loss = outputs.at("loss").item();
    if (outputs.contains("aux_loss"))  // the load-balancing term of mixtures of experts
      loss -= outputs.at("aux_loss").item() * config.value("router_aux_loss_coef", 0.0);
    return loss * static_cast<double>(end - std::max(first, begin + 1));
  };
  const TextLoss whole = text_loss(*model_, ids, 60, 60), apart = text_loss(*model_, ids, 20, 20),
                 sliding = text_loss(*model_, ids, 20, 5);
  EXPECT_EQ(whole.predicted, 49);
  EXPECT_EQ(apart.predicted, 49);
  EXPECT_EQ(sliding.predicted, 49);
  EXPECT_NEAR(whole.nats, nats_after(0, 0, 50), 1e-3);
  EXPECT_NEAR(apart.nats, nats_after(0, 0, 21) + nats_after(20, 20, 41) + nats_after(40, 40, 50), 1e-3);
  double nats = nats_after(0, 0, 21);
  for (std::int64_t begin = 5, done = 21; done < 50; begin += 5) {
    const std::int64_t end = std::min<std::int64_t>(begin + 21, 50);
    nats += nats_after(begin, done, end);
    done = end;
  }
  EXPECT_NEAR(sliding.nats, nats, 1e-3);
  EXPECT_NEAR(sliding.perplexity(), std::exp(nats / 49), 1e-3 * sliding.perplexity());
  const std::span<const std::int64_t> all = ids;
  double told = 0;
  const auto tokens = token_likelihoods(*model_, all.first(3), all.subspan(3));
  ASSERT_EQ(std::ssize(tokens), 47);
  for (const TokenLikelihood& token : tokens) {
    told -= token.log_probability;
    EXPECT_LE(token.log_probability, 0);
  }
  EXPECT_NEAR(told, whole.nats - nats_after(0, 0, 3), 1e-3);
  const std::int64_t best = search_prompts(*model_, Prompts{{ids.begin(), ids.begin() + 9}},
                                           {.max_new_tokens = 1, .do_sample = false}, 100)[0][0]
                                .ids[0];
  EXPECT_TRUE(token_likelihoods(*model_, all.first(9), {&best, 1})[0].greedy);
  EXPECT_ERROR(token_likelihoods(*model_, all.first(0), all), "expected at least one token before");
  EXPECT_ERROR(text_loss(*model_, ids, 20, 21), "a stride within it, got 20 and 21");
  EXPECT_ERROR(text_loss(*model_, {ids.data(), 1}, 20, 20), "expected at least two tokens to predict, got 1");
}

class Gpt2Continuation : public Continuation {};
INSTANTIATE_TEST_SUITE_P(One, Gpt2Continuation, ::testing::Values("gpt2"));

TEST_P(Gpt2Continuation, StopsAtEndTokens) {
  const Prompts prompts = {{5, 6, 7}, {8, 9}};
  GenerationOptions options;
  options.max_new_tokens = 10;
  const auto free = search_prompts(*model_, prompts, options, 100);
  SearchHooks hooks;
  const std::int64_t last = free[1][0].ids[4];
  hooks.is_finished = [&](std::size_t row, std::span<const std::int64_t> ids) {
    return row == 1 && ids.back() == last;
  };
  std::vector<std::vector<std::int64_t>> told(2);
  hooks.on_token = [&](std::size_t row, std::size_t, std::int64_t id) {
    told[row].push_back(id);
    return true;
  };
  const auto stopped = search_prompts(*model_, prompts, options, 100, hooks);
  EXPECT_EQ(stopped[0][0].ids, free[0][0].ids);
  const auto& ids = free[1][0].ids;
  const auto end = std::find(ids.begin(), ids.end(), last) + 1;
  EXPECT_EQ(stopped[1][0].ids, std::vector<std::int64_t>(ids.begin(), end));
  EXPECT_EQ(stopped[0][0].finish_reason, FinishReason::length);
  EXPECT_EQ(stopped[1][0].finish_reason, FinishReason::stop);
  EXPECT_EQ(told, (Prompts{stopped[0][0].ids, stopped[1][0].ids}));
}

TEST_P(Gpt2Continuation, StreamsTextAndEndsAfterAStopString) {
  const LetterTokenizer tokenizer;
  CompleteOptions options;
  options.generation.max_new_tokens = 20;
  const Prompts prompts = {prompt_ids(tokenizer, "once", options.generation),
                           prompt_ids(tokenizer, "it", options.generation)};
  const auto free = complete(*model_, tokenizer, prompts, options);
  const std::string text = free[0][0].text;
  EXPECT_EQ(text, tokenizer.decode(free[0][0].hypothesis.ids, true));
  const std::string stop = text.substr(text.size() / 2, 3);
  std::vector<std::string> streamed(2);
  options.stop_strings = {"nothing like this", stop};
  options.on_text = [&](std::size_t i, std::size_t, const std::string& piece) {
    streamed[i] += piece;
    return true;
  };
  const auto stopped = complete(*model_, tokenizer, prompts, options);
  const std::size_t end = text.find(stop) + stop.size();
  EXPECT_EQ(stopped[0][0].text.substr(0, end), text.substr(0, end));
  EXPECT_LE(stopped[0][0].text.size(), end + 1);  // the last token may extend one letter further
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(streamed[i], stopped[i][0].text);
  EXPECT_ERROR(prompt_ids(tokenizer, "", options.generation),
               "expected a prompt with at least one token, got an empty one");
  options.generation.bos_token_id = 7;
  EXPECT_EQ(prompt_ids(tokenizer, "", options.generation), std::vector<std::int64_t>{7});
  options.stop_strings = {""};
  EXPECT_ERROR(complete(*model_, tokenizer, prompts, options),
               "expected stop strings with characters, got an empty one");
}

TEST_P(Gpt2Continuation, ACallbackEndsItsSequenceAlone) {
  const LetterTokenizer tokenizer;
  CompleteOptions options;
  options.generation.max_new_tokens = 12;
  const Prompts prompts = {{5, 6, 7}, {8, 9}};
  const auto free = complete(*model_, tokenizer, prompts, options);
  std::vector<int> calls(2, 0);
  options.on_text = [&](std::size_t i, std::size_t, const std::string&) { return ++calls[i] < 3 || i == 0; };
  const auto stopped = complete(*model_, tokenizer, prompts, options);
  EXPECT_EQ(stopped[0][0].hypothesis.ids, free[0][0].hypothesis.ids);
  const auto& ids = free[1][0].hypothesis.ids;
  EXPECT_EQ(stopped[1][0].hypothesis.ids, std::vector<std::int64_t>(ids.begin(), ids.begin() + 3));
  EXPECT_EQ(stopped[1][0].hypothesis.finish_reason, FinishReason::stop);
  EXPECT_EQ(calls, (std::vector<int>{13, 3}));  // also the rest of the first, and no calls after false
}

// The flag is set while the first layer processes the prompt; no further layer is run.
TEST_P(Gpt2Continuation, CancelsWithinThePrompt) {
  std::atomic<bool> stop{false};
  int first = 0, later = 0;
  Taps taps;
  taps.listen("*.layers.*.out", [&](const std::string& name, Tensor&) {
    ++(name.find(".layers.0.") != name.npos ? first : later);
    stop = true;
  });
  Context context;
  context.taps = &taps;
  SearchHooks hooks;
  hooks.stop = &stop;
  bool told = false;
  hooks.on_token = [&](std::size_t, std::size_t, std::int64_t) { return told = true; };
  const auto decoding = model_->decode(1);
  EXPECT_THROW(search(*decoding, Prompts{{5, 6, 7}}, {}, hooks, context), Canceled);
  EXPECT_GE(first, 1);
  EXPECT_EQ(later, 0);
  EXPECT_FALSE(told);
  CompleteOptions options;
  options.task.stop = &stop;
  EXPECT_THROW(complete(*model_, LetterTokenizer(), Prompts{{5, 6}}, options), Canceled);
  EXPECT_THROW(search_prompts(*model_, Prompts{{5, 6}}, {.num_beams = 2}, 100, {.stop = &stop}), Canceled);
}

TEST_P(Gpt2Continuation, CancelsBetweenTokens) {
  std::atomic<bool> stop{false};
  std::vector<std::int64_t> made;
  SearchHooks hooks;
  hooks.stop = &stop;
  hooks.on_token = [&](std::size_t, std::size_t, std::int64_t id) {
    made.push_back(id);
    stop = made.size() == 3;
    return true;
  };
  EXPECT_THROW(search_prompts(*model_, Prompts{{5, 6, 7}}, {.max_new_tokens = 20}, 100, hooks), Canceled);
  EXPECT_EQ(made.size(), 3u);
}

TEST_P(Gpt2Continuation, EndsAtTheLastPosition) {
  GenerationOptions options;
  options.max_new_tokens = 1000;
  const Prompts prompts = {std::vector<std::int64_t>(60, 5), {5, 6}};
  for (const std::int64_t beams : {1, 3}) {
    options.num_beams = beams;
    options.early_stopping = EarlyStopping::never;
    const auto found = search_prompts(*model_, prompts, options, 1000);
    EXPECT_EQ(found[0][0].ids.size(), 5u);  // 64 positions; the last token is never fed
    EXPECT_EQ(found[1][0].ids.size(), 63u);
    for (const auto& one : found) EXPECT_EQ(one[0].finish_reason, FinishReason::positions);
    EXPECT_EQ(positions_warning(found[0][0], 60, options),
              "stopped at the model's last position (64) after 5 of 1000 tokens");
  }
  // Exactly as many tokens as were asked for.
  options.max_new_tokens = 4;
  const auto found = search_prompts(*model_, prompts, options, 1000);
  EXPECT_EQ(found[0][0].finish_reason, FinishReason::length);
}

TEST_P(Gpt2Continuation, WarnsOfTextsThatTheLastPositionEnds) {
  const LetterTokenizer tokenizer;
  std::map<std::size_t, std::string> warnings, errors;
  CompleteOptions options;
  options.generation.max_new_tokens = 70;
  options.task.first_index = 10;
  options.task.on_warning = [&](std::size_t index, const std::string& message) { warnings[index] = message; };
  const std::vector<std::string> prompts{"once", std::string(400, 'a'), "it"};
  EXPECT_ERROR(complete(*model_, tokenizer, prompts, options),
               "generate: text 12: search: expected room for a new token");
  options.task.on_error = [&](std::size_t index, const std::string& message) { errors[index] = message; };
  const auto found = complete(*model_, tokenizer, prompts, options);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_TRUE(found[1].empty());
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_THAT(errors[11], ::testing::HasSubstr("where the model's positions allow 64 (shorten the prompt)"));
  ASSERT_EQ(warnings.size(), 2u);
  for (const std::size_t i : {0, 2}) {
    EXPECT_EQ(found[i][0].hypothesis.finish_reason, FinishReason::positions);
    EXPECT_EQ(warnings[10 + i], fmt::format("stopped at the model's last position (64) after {} of 70 tokens",
                                            found[i][0].hypothesis.ids.size()));
  }
}

// As in transformers: 20 new tokens if no length is set, but at most max_position_embeddings in total.
TEST(Continuation, WithoutALengthTextsKeepToThePositionsOfTraining) {
  for (const char* fixture : {"gpt2", "llama", "mistral", "qwen2", "gpt-neox"}) {
    SCOPED_TRACE(fixture);
    const auto model = load_as<DecoderModel>(std::filesystem::path(HEED_FIXTURES) / "decoders" / fixture);
    EXPECT_EQ(model->trained_positions(), 64);
    const Prompts prompts = {std::vector<std::int64_t>(61, 5), {5, 6}};
    const auto found = search_prompts(*model, prompts, {}, 1000);
    EXPECT_EQ(found[0][0].ids.size(), 3u);
    EXPECT_EQ(found[1][0].ids.size(), 20u);
    const Prompts full = {std::vector<std::int64_t>(64, 5)};
    EXPECT_ERROR(search_prompts(*model, full, {}, 1000), "expected room for a new token, got");
    EXPECT_EQ(search_prompts(*model, full, {.max_new_tokens = 1}, 1000)[0][0].ids.size(), 1u);
  }
  const auto bloom = load_as<DecoderModel>(std::filesystem::path(HEED_FIXTURES) / "decoders/bloom");
  EXPECT_EQ(bloom->trained_positions(), std::nullopt);
}

// tests/fixtures/cache.py made what is expected.
TEST(Continuation, IsThatOfTransformersWithACacheThatRounds) {
  const NoGradients guard;
  for (const char* name : {"gpt2", "llama"}) {
    const std::filesystem::path folder = std::filesystem::path(HEED_FIXTURES) / "decoders" / name;
    const auto model = load_as<DecoderModel>(folder);
    const TensorMap expected = read_tensors(folder / "cache.safetensors");
    for (const CacheDType dtype : {CacheDType::bf16, CacheDType::f16, CacheDType::int8}) {
      const std::string of(name_of(dtype));
      SCOPED_TRACE(name + (" " + of));
      const auto ids = expected.at(of + ".ids").to_vector<std::int64_t>();
      const Tensor logits = expected.at(of + ".logits");
      const std::int64_t steps = logits.size(0), prompt = std::ssize(ids) - steps;
      Context context{.cache_dtype = dtype};
      const auto decoding = model->decode(1);
      for (std::int64_t step = 0; step < steps; ++step) {
        const std::vector<std::int64_t> fed(ids.begin() + (step == 0 ? 0 : prompt + step - 1),
                                            ids.begin() + prompt + step);
        const Tensor got = decoding->step(Tensor::from(fed, {1, std::ssize(fed)}), context);
        const auto own = slice(got, 1, 0, logits.size(1)).to_vector<float>(),
                   want = slice(logits, 0, step, step + 1).to_vector<float>();
        for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(own[i], want[i], 1e-4) << step << " " << i;
      }
      GenerationOptions options;
      options.max_new_tokens = steps;
      options.cache_dtype = dtype;
      const Prompts prompts = {{ids.begin(), ids.begin() + prompt}};
      const auto found = search_prompts(*model, prompts, options, 100);
      EXPECT_EQ(found[0][0].ids, std::vector(ids.begin() + prompt, ids.end()));
      const TextLoss loss = text_loss(*model, ids, 10, 5, {}, dtype), exact = text_loss(*model, ids, 10, 5);
      EXPECT_NE(loss.nats, exact.nats);
      EXPECT_NEAR(loss.nats, exact.nats, 0.01 * exact.nats);
    }
  }
}

TEST_P(Gpt2Continuation, RefusesWhatDoesNotFit) {
  const auto refuses = [&](const Prompts& prompts, const GenerationOptions& options, const char* told) {
    EXPECT_ERROR(search_prompts(*model_, prompts, options, 100), told);
  };
  refuses({{}}, {}, "has no tokens");
  refuses({{5}, {512}}, {}, "below 512");
  refuses({{-1}}, {}, "below 512");
  refuses({std::vector<std::int64_t>(65, 5)}, {.max_new_tokens = 1},
          "room for a new token, got a prompt of 65 tokens where the model's positions allow 64 (shorten");
  refuses({{5, 6, 7}}, {.max_length = 3},
          "room for a new token, got max_length 3 for a prompt of 3 tokens (raise max_length, use");
  refuses({{5}}, {.forced_eos_token_id = {512}}, "forced_eos_token_id");
  refuses({{5}}, {.temperature = NAN}, "temperature");
  refuses({{5}}, {.num_beams = 2000}, "num_beams");
  EXPECT_TRUE(search_prompts(*model_, {}, {}, 100).empty());
}

}  // namespace
}  // namespace heed
