// Generation against search_prompts() of each request alone: ids and scores to the bit, whatever else runs,
// however prompts are cut, and whatever is remembered.
#include "heed/generate/generation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "generate/generation_results.h"
#include "generate/prefix_cache.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"
#include "reference/error.h"
#include "reference/tensors.h"

namespace heed {
namespace {

using Ids = std::vector<std::int64_t>;

std::filesystem::path decoder_folder(const std::string& name) {
  return std::filesystem::path(HEED_FIXTURES) / "decoders" / name;
}

std::unique_ptr<DecoderModel> new_decoder(const std::string& fixture, const std::string& settings) {
  Generator generator(3);
  auto model = make_model(Config::load(decoder_folder(fixture) / "config.json").with(settings), generator);
  return std::unique_ptr<DecoderModel>(dynamic_cast<DecoderModel*>(model.release()));
}

/// A fixture by its name; of `transformer-*` and `gpt2-long` one with more positions. `llama-4-bits` and
/// `llama-8-bits` are quantized, with inputs rounded to int8.
std::unique_ptr<DecoderModel> decoder_of(const std::string& name) {
  if (name.starts_with("transformer-"))
    return new_decoder(name, R"({"max_position_embeddings": 320, "initializer_range": 0.3})");
  if (name == "gpt2-long") return new_decoder("gpt2", R"({"n_positions": 320, "initializer_range": 0.3})");
  if (!name.ends_with("-bits")) return load_as<DecoderModel>(decoder_folder(name));
  auto model = new_decoder("llama", R"({"hidden_size": 64, "intermediate_size": 96, "head_dim": 16})");
  model->quantize({.bits = name[6] - '0', .group = 32});
  EXPECT_GT(model->use_activations(Activations::int8), 0);
  return model;
}

Ids random_ids(std::mt19937_64& random, std::int64_t count, std::int64_t vocabulary) {
  Ids ids;
  for (std::int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(vocabulary)));
  return ids;
}

std::int64_t longest_text(const DecoderModel& model, std::int64_t wanted) {
  return std::min(wanted, model.max_positions().value_or(wanted));
}

/// The request alone.
std::vector<Hypothesis> lone(const DecoderModel& model, const GenerationRequest& request) {
  SearchHooks hooks = request.hooks;
  hooks.sample_ids = {request.sample_id};
  return search_prompts(model, std::span(&request.prompt, 1), request.options, 1, hooks).front();
}

class GenerationOf : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<DecoderModel> model_ = decoder_of(GetParam());
};
INSTANTIATE_TEST_SUITE_P(All, GenerationOf,
                         ::testing::Values("gpt2", "gpt2-long", "llama", "llama3", "mistral", "qwen3",
                                           "mixtral", "qwen3-moe-mixed", "gemma2", "gemma3", "bloom", "mpt",
                                           "gpt-neox", "phi3-longrope", "transformer-fixed",
                                           "transformer-strided", "transformer-linear", "transformer-window",
                                           "llama-4-bits", "llama-8-bits"));

TEST_P(GenerationOf, PromptsInPiecesHaveTheBitsOfWholeOnes) {
  const NoGradients guard;
  std::mt19937_64 random(1);
  const Ids ids = random_ids(random, longest_text(*model_, 300), model_->vocab_size());
  const std::int64_t chunk_size = model_->decode(1)->chunk_size();
  for (const CacheDType dtype : {CacheDType::f32, CacheDType::int8}) {
    Context context{.cache_dtype = dtype};
    const auto logits_in = [&](std::int64_t piece) {
      const auto decoding = model_->decode(1);
      Tensor logits;
      for (std::size_t from = 0; from < ids.size(); from += static_cast<std::size_t>(piece)) {
        const Ids part(ids.begin() + static_cast<std::ptrdiff_t>(from),
                       ids.begin() + std::min(std::ssize(ids), static_cast<std::ptrdiff_t>(from) + piece));
        logits = decoding->step(Tensor::from(part, {1, std::ssize(part)}), context);
      }
      return logits.to_vector<float>();
    };
    const std::vector<float> whole = logits_in(std::ssize(ids));
    for (const std::int64_t piece : {1, 7, 64, 256}) {
      if (chunk_size == 0 || piece % chunk_size != 0) continue;
      EXPECT_EQ(logits_in(piece), whole) << "pieces of " << piece;
    }
  }
}

TEST_P(GenerationOf, JoinedAndCopiedRowsGoOnAsBefore) {
  const NoGradients guard;
  const std::int64_t chunk_size = model_->decode(1)->chunk_size();
  Context context;
  const auto read = [&](const Ids& ids) {
    auto decoding = model_->decode(1);
    decoding->step(Tensor::from(ids, {1, std::ssize(ids)}), context);
    return decoding;
  };
  const auto next = [&](Decoding& decoding, const Ids& ids) {
    return decoding.step(Tensor::from(ids, {std::ssize(ids), 1}), context).to_vector<float>();
  };
  const Ids a{5, 6, 7}, b{8, 9, 10, 11, 12};
  const auto first = read(a), second = read(b);
  if (chunk_size == 0) {
    EXPECT_ERROR(first->join(*second), "expected rows of one decoder that depend on their tokens alone");
    EXPECT_ERROR(first->copy_row(0, 2), "expected rows of one decoder that depend on their tokens alone");
    return;
  }
  const auto both = read(a);
  both->join(*second);
  both->join(*both->copy_row(0, 3));
  EXPECT_EQ(both->rows(), 3);
  EXPECT_EQ(both->length(), 5);
  std::vector<float> expected = next(*read(a), {3});
  for (const float logit : next(*read(b), {4})) expected.push_back(logit);
  for (const float logit : next(*read(a), {2})) expected.push_back(logit);
  EXPECT_EQ(next(*both, {3, 4, 2}), expected);
  both->reorder(Ids{1});
  const auto alone = read(b);
  next(*alone, {4});
  EXPECT_EQ(next(*both, {7}), next(*alone, {7}));
  both->join(*first);  // into rows that were given up
  EXPECT_EQ(next(*both, {1, 3}).size(), expected.size() / 3 * 2);
  EXPECT_ERROR(both->copy_row(2, 1), "expected a row below 2");
  EXPECT_ERROR(both->copy_row(1, 5), "5 tokens of row 1");
  if (chunk_size == 1) {
    EXPECT_EQ(next(*both->copy_row(0, 5), {4}), next(*read(b), {4}));
    EXPECT_GT(both->bytes(), both->copy_row(0, 5)->bytes());
  } else {
    EXPECT_ERROR(both->copy_row(0, 5), "expected to forget all tokens or none");
  }
}

/// Requests of every kind that begin alike now and then.
class RandomRequests : public RandomChoices {
 public:
  RandomRequests(const DecoderModel& model, std::uint64_t seed) : RandomChoices(seed), model_(model) {
    for (const std::int64_t length : {std::int64_t{20}, longest_text(model, 51) - 14})
      openings_.push_back(random_ids(random_, length, vocabulary()));
  }

  GenerationRequest next() {
    GenerationRequest request;
    if (one_in(2)) request.prompt = openings_[below(2)];
    const Ids own = random_ids(random_, 1 + static_cast<std::int64_t>(below(12)), vocabulary());
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    GenerationOptions& options = choose(request, 14);
    options.temperature = one_in(2) ? 0.7 : 1.0;
    options.top_k = one_in(2) ? 0 : 20;
    options.cache_dtype = one_in(6) ? CacheDType::int8 : CacheDType::f32;
    if (one_in(4)) options.repetition_penalty = 1.3;
    if (one_in(4)) options.no_repeat_ngram_size = 2;
    for (std::uint64_t ends = below(3); ends > 0; --ends) {  // many, so that some are generated
      for (const std::int64_t id : random_ids(random_, vocabulary() / 30, vocabulary()))
        options.eos_token_id.push_back(id);
    }
    const std::uint64_t kind = below(4);
    if (kind == 0) options.num_return_sequences = options.do_sample ? 3 : 1;
    if (kind == 1) options.num_beams = 2 + static_cast<std::int64_t>(below(3));
    if (options.num_beams > 1) {
      options.num_return_sequences = 2;
      options.early_stopping = one_in(2) ? EarlyStopping::yes : EarlyStopping::no;
      options.eos_token_id.resize(std::min<std::size_t>(options.eos_token_id.size(), 3));
    }
    if (one_in(3)) {
      request.hooks.is_finished = [](std::size_t, std::span<const std::int64_t> ids) {
        return ids.back() % 9 == 0;
      };
    }
    if (one_in(5)) {
      request.hooks.process = [](std::size_t row, std::span<const std::int64_t> ids,
                                 std::span<float> scores) {
        scores[ids.size() % scores.size()] += 3 + static_cast<float>(row);
      };
    }
    return request;
  }

 private:
  std::int64_t vocabulary() const { return model_.vocab_size(); }

  const DecoderModel& model_;
  std::vector<Ids> openings_;
};

TEST_P(GenerationOf, RandomSchedulesGiveEachRequestWhatItGetsAlone) {
  constexpr int kSchedules = 4, kRequests = 12;
  std::int64_t cached = 0;
  for (int schedule = 0; schedule < kSchedules; ++schedule) {
    SCOPED_TRACE(schedule);
    RandomRequests random(*model_, 10 + static_cast<std::uint64_t>(schedule));
    GenerationLimits limits;
    limits.rows = 1 + static_cast<std::int64_t>(random.below(10));
    limits.prompt_tokens = schedule == 0 ? 256 : 1 + static_cast<std::int64_t>(random.below(30));
    limits.cached_bytes =
        std::vector<std::size_t>{1 << 24, 60000, 0, 1 << 20}[static_cast<std::size_t>(schedule)];
    Generation generation(*model_, limits);
    std::map<std::uint64_t, GenerationRequest> asked;
    std::map<std::uint64_t, bool> canceled;
    std::map<std::uint64_t, std::map<std::int64_t, Ids>> told;
    std::set<std::uint64_t> begun;
    int added = 0;
    while (added < kRequests || !generation.idle()) {
      while (added < kRequests && !random.one_in(3)) {
        const GenerationRequest request = random.next();
        asked[generation.add(request)] = request;
        ++added;
      }
      if (random.one_in(6) && !asked.empty()) {
        const std::uint64_t number =
            std::next(asked.begin(), static_cast<std::ptrdiff_t>(random.below(asked.size())))->first;
        generation.cancel(number);
        canceled[number] = true;
      }
      const Generation::Step step = generation.step();
      for (const std::uint64_t number : step.begun) EXPECT_TRUE(begun.insert(number).second);
      std::map<std::pair<std::uint64_t, std::int64_t>, int> each;
      for (const GeneratedToken& token : step.tokens) {
        EXPECT_TRUE(begun.contains(token.request));
        told[token.request][token.sequence].push_back(token.id);
        EXPECT_LE((++each[{token.request, token.sequence}]),
                  1 + (told[token.request][token.sequence].size() == 2));
        EXPECT_EQ(std::ssize(token.top), asked.at(token.request).top);
      }
      EXPECT_LE(generation.cached_bytes(), limits.cached_bytes);
      for (const std::uint64_t number : step.finished) {
        SCOPED_TRACE(fmt::format("request {}", number));
        const GenerationRequest request = asked.at(number);
        cached += generation.cached_tokens(number);
        EXPECT_LT(generation.cached_tokens(number), std::ssize(request.prompt));
        const std::vector<Hypothesis> found = generation.remove(number), expected = lone(*model_, request);
        asked.erase(number);
        if (canceled[number] && request.options.num_beams == 1) {
          ASSERT_EQ(found.size(), expected.size());
          for (std::size_t i = 0; i < found.size(); ++i) {
            ASSERT_LE(found[i].ids.size(), expected[i].ids.size());
            EXPECT_TRUE(std::equal(found[i].ids.begin(), found[i].ids.end(), expected[i].ids.begin()));
          }
        } else if (!canceled[number]) {
          expect_same(found, expected);
        }
        if (request.options.num_beams > 1) continue;
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_EQ(told[number][static_cast<std::int64_t>(i)], found[i].ids);
      }
    }
    EXPECT_EQ(generation.running(), 0);
    EXPECT_EQ(generation.waiting(), 0);
  }
  if (model_->decode(1)->chunk_size() == 1) {
    EXPECT_GT(cached, 0);
  }
}

class Gpt2Generation : public GenerationOf {};
INSTANTIATE_TEST_SUITE_P(One, Gpt2Generation, ::testing::Values("gpt2"));
class LlamaGeneration : public GenerationOf {};
INSTANTIATE_TEST_SUITE_P(One, LlamaGeneration, ::testing::Values("llama"));

TEST_P(LlamaGeneration, HundredsOfRequestsShareAFewRows) {
  Generation generation(*model_, {.rows = 12, .prompt_tokens = 64, .cached_bytes = 200000});
  RandomRequests random(*model_, 7);
  std::map<std::uint64_t, GenerationRequest> asked;
  for (int i = 0; i < 300; ++i) {
    const GenerationRequest request = random.next();
    asked[generation.add(request)] = request;
  }
  EXPECT_EQ(generation.waiting(), 300);
  for (auto& [number, found] : run_to_the_end(generation))
    expect_same(found, lone(*model_, asked.at(number)));
  EXPECT_LE(generation.cached_bytes(), 200000u);
}

// A client asks for far more than there are rows, and leaves before most of it has begun.
TEST_P(LlamaGeneration, ThousandsOfWaitingRequestsEndAtOnce) {
  constexpr std::uint64_t kMany = 30000;
  Generation generation(*model_, {.rows = 3, .prompt_tokens = 64});
  std::atomic<bool> stop = false;
  GenerationRequest short_one{.prompt = {5, 6, 7}, .options = {.max_new_tokens = 4}};
  const std::uint64_t first = generation.add(short_one);
  GenerationRequest stoppable = short_one;
  stoppable.hooks.stop = &stop;
  const std::uint64_t stopped = generation.add(stoppable);
  for (std::uint64_t i = 0; i < kMany; ++i) generation.add(short_one);
  const std::uint64_t last = generation.add(short_one);
  EXPECT_EQ(generation.step().begun, (std::vector<std::uint64_t>{first, stopped, stopped + 1}));
  EXPECT_EQ(generation.waiting(), static_cast<std::int64_t>(kMany));  // the last, and all but one
  stop = true;
  for (std::uint64_t number = stopped + 1; number < last; ++number) generation.cancel(number);
  EXPECT_EQ(generation.running() + generation.waiting(), 3);
  for (std::uint64_t number = last - 1; number > stopped; --number) {
    const std::size_t tokens = generation.remove(number)[0].ids.size();
    ASSERT_EQ(tokens, number == stopped + 1 ? 1u : 0u);
  }
  EXPECT_EQ(generation.step().finished, (std::vector<std::uint64_t>{stopped}));
  EXPECT_THROW(generation.remove(stopped), Canceled);
  const auto results = run_to_the_end(generation);
  EXPECT_EQ(results.size(), 2u);
  expect_same(results.at(first), lone(*model_, short_one));
  expect_same(results.at(last), lone(*model_, short_one));
  EXPECT_TRUE(generation.idle());
}

/// log p of every next token by a forward pass.
std::vector<double> log_probabilities(const DecoderModel& model, const Ids& ids) {
  const NoGradients guard;
  const Tensor logits = model.forward({{"input_ids", Tensor::from(ids, {1, std::ssize(ids)})}}).at("logits");
  const std::vector<float> all = logits.to_vector<float>();
  const std::vector<float> last(all.end() - logits.size(2), all.end());
  double sum = 0;
  for (const float logit : last) sum += std::exp(static_cast<double>(logit));
  std::vector<double> result;
  for (const float logit : last) result.push_back(static_cast<double>(logit) - std::log(sum));
  return result;
}

TEST_P(LlamaGeneration, TellsTheModelsOwnProbabilities) {
  Generation generation(*model_);
  GenerationRequest request{.prompt = {5, 6, 7}, .top = 4};
  request.options = {.max_new_tokens = 5, .repetition_penalty = 2, .do_sample = true, .temperature = 3};
  generation.add(request);
  Ids ids = request.prompt;
  while (!generation.idle()) {
    for (const GeneratedToken& token : generation.step().tokens) {
      const std::vector<double> expected = log_probabilities(*model_, ids);
      EXPECT_NEAR(token.log_probability, expected[static_cast<std::size_t>(token.id)], 1e-4);
      std::vector<double> sorted = expected;
      std::sort(sorted.rbegin(), sorted.rend());
      ASSERT_EQ(token.top.size(), 4u);
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_NEAR(token.top[i].second, sorted[i], 1e-4);
        EXPECT_NEAR(expected[static_cast<std::size_t>(token.top[i].first)], sorted[i], 1e-4);
      }
      ids.push_back(token.id);
    }
  }
  EXPECT_EQ(ids.size(), 8u);
}

TEST_P(LlamaGeneration, LongPromptsDoNotHoldUpOthers) {
  Generation generation(*model_, {.rows = 4, .prompt_tokens = 16});
  std::mt19937_64 random(3);
  const GenerationRequest quick{.prompt = {5, 6, 7}, .options = {.max_new_tokens = 40}},
      slow{.prompt = random_ids(random, 200, model_->vocab_size()), .options = {.max_new_tokens = 3}},
      third{.prompt = {9, 8}, .options = {.max_new_tokens = 4}};
  const std::uint64_t first = generation.add(quick);
  EXPECT_EQ(generation.step().tokens.size(), 1u);
  const std::uint64_t second = generation.add(slow), last = generation.add(third);
  for (int step = 0; step < 12; ++step) {  // 16 tokens of 200 each
    const auto tokens = generation.step().tokens;
    ASSERT_EQ(tokens.size(), 1u) << step;
    EXPECT_EQ(tokens[0].request, first);
    EXPECT_EQ(generation.running(), 2);
    EXPECT_EQ(generation.waiting(), 1);
  }
  EXPECT_EQ(generation.step().tokens.size(), 3u);  // and what was left of the pass reads the third
  const auto results = run_to_the_end(generation);
  expect_same(results.at(first), lone(*model_, quick));
  expect_same(results.at(second), lone(*model_, slow));
  expect_same(results.at(last), lone(*model_, third));
}

TEST_P(LlamaGeneration, LongTextsAmongShortOnes) {
  std::mt19937_64 random(5);
  Generation generation(*model_, {.prompt_tokens = 2000, .cached_bytes = 1 << 20});
  std::map<std::uint64_t, GenerationRequest> asked;
  for (const std::int64_t length : {10, 1500, 20, 30, 40, 1600, 50, 9}) {
    const GenerationRequest request{.prompt = random_ids(random, length, model_->vocab_size()),
                                    .options = {.max_new_tokens = 6 + length % 7}};
    asked[generation.add(request)] = request;
    generation.step();
  }
  for (auto& [number, found] : run_to_the_end(generation)) {
    expect_same(found, lone(*model_, asked.at(number)));
    asked.erase(number);
  }
  EXPECT_TRUE(asked.empty());
}

TEST_P(LlamaGeneration, RowsHaveRoomForTheirOwnTokens) {
  const NoGradients guard;
  Context context;
  const auto decoding = model_->decode(2), other = model_->decode(1);
  decoding->step_ragged(Tensor::zeros({2, 3000}, DType::i64), Ids{3000, 3}, context);
  const std::size_t both = decoding->bytes();
  decoding->step(Tensor::zeros({2, 1}, DType::i64), context);
  EXPECT_LT(decoding->bytes(), both * 2 / 3);  // what a pass with a long row took is free after it
  other->step(Tensor::zeros({1, 4}, DType::i64), context);
  const std::size_t before = decoding->bytes();
  decoding->join(*other);
  EXPECT_EQ(decoding->bytes(), before + other->bytes());
  decoding->reorder(Ids{1, 2});
  EXPECT_LT(decoding->bytes(), both / 10);
}

TEST_P(LlamaGeneration, ReadsWhatPromptsHaveInCommonOnce) {
  std::mt19937_64 random(4);
  const Ids opening = random_ids(random, 50, model_->vocab_size());
  const auto with = [&](Ids more) {
    Ids ids = opening;
    ids.insert(ids.end(), more.begin(), more.end());
    return GenerationRequest{.prompt = ids, .options = {.max_new_tokens = 4}};
  };
  const auto cached = [&](Generation& generation, const GenerationRequest& request) {
    const std::uint64_t number = generation.add(request);
    generation.step();
    const std::int64_t tokens = generation.cached_tokens(number);
    expect_same(run_to_the_end(generation).at(number), lone(*model_, request));
    return tokens;
  };
  Generation remembers(*model_, {.cached_bytes = 1 << 20}), forgets(*model_);
  EXPECT_EQ(cached(remembers, with({1, 2})), 0);
  EXPECT_EQ(cached(remembers, with({3, 4})), 50);
  EXPECT_EQ(cached(remembers, with({1, 2})), 51);  // all but the last token, which must be read
  GenerationRequest longer = with({1, 2});
  const Ids answer = lone(*model_, longer).front().ids;
  longer.prompt.insert(longer.prompt.end(), answer.begin(), answer.end());
  longer.prompt.push_back(5);
  EXPECT_EQ(cached(remembers, longer), 55);  // the last token of the answer was never fed
  GenerationRequest other = with({3});
  other.options.cache_dtype = CacheDType::int8;
  EXPECT_EQ(cached(remembers, other), 0);
  EXPECT_EQ(cached(remembers, {.prompt = {opening.begin(), opening.begin() + 16}}), 0);  // 15 are too few
  EXPECT_EQ(cached(remembers, {.prompt = {opening.begin(), opening.begin() + 17}}), 16);
  EXPECT_EQ(cached(forgets, with({1, 2})), 0);
  EXPECT_EQ(cached(forgets, with({1, 2})), 0);
  EXPECT_EQ(forgets.cached_bytes(), 0u);
  // Prompts that come together wait for the first of them, and take its row over while it runs.
  std::vector<std::uint64_t> numbers;
  for (const std::int64_t id : {1, 2, 3}) numbers.push_back(forgets.add(with({id, 4})));
  EXPECT_EQ(forgets.step().tokens.size(), 3u);
  EXPECT_EQ(forgets.cached_tokens(numbers[0]), 0);
  EXPECT_EQ(forgets.cached_tokens(numbers[1]), 50);
  EXPECT_EQ(forgets.cached_tokens(numbers[2]), 50);
  const auto results = run_to_the_end(forgets);
  for (const std::int64_t id : {1, 2, 3})
    expect_same(results.at(numbers[static_cast<std::size_t>(id - 1)]), lone(*model_, with({id, 4})));
}

// Sums cannot go back to an earlier token, so only states that were kept while reading help.
TEST(LinearGeneration, TakesOverWholePieces) {
  const auto model = decoder_of("transformer-linear");
  std::mt19937_64 random(4);
  const std::int64_t length = 190;
  const Ids prompt = random_ids(random, length, model->vocab_size());
  Generation generation(*model, {.prompt_tokens = 64, .cached_bytes = 1 << 20});
  const GenerationRequest request{.prompt = prompt, .options = {.max_new_tokens = 3}};
  for (const std::int64_t expected : {std::int64_t{0}, (length - 1) / 64 * 64}) {
    const std::uint64_t number = generation.add(request);
    generation.step();
    EXPECT_EQ(generation.cached_tokens(number), expected);
    expect_same(run_to_the_end(generation).at(number), lone(*model, request));
  }
}

TEST(PrefixCache, ForgetsWhatWasUsedLeastRecently) {
  const NoGradients guard;
  const auto model = decoder_of("llama");
  Context context;
  const auto read = [&](std::int64_t first) {
    Ids ids{first};
    for (std::int64_t i = 1; i < 20; ++i) ids.push_back(i);
    return ids;
  };
  const auto decoded = [&](const Ids& ids) {
    const auto decoding = model->decode(1);
    decoding->step(Tensor::from(ids, {1, std::ssize(ids)}), context);
    return decoding->copy_row(0, std::ssize(ids));
  };
  const std::size_t each = decoded(read(1))->bytes() + 20 * sizeof(std::int64_t);
  generate::PrefixCache cache(2 * each + 1, 1);
  const auto length = [&](std::int64_t first) {
    Ids ids = read(first);
    ids.push_back(3);
    return cache.find(ids, CacheDType::f32).length;
  };
  cache.keep(read(1), CacheDType::f32, decoded(read(1)));
  cache.keep(read(2), CacheDType::f32, decoded(read(2)));
  EXPECT_EQ(cache.bytes(), 2 * each);
  EXPECT_EQ(length(1), 20);
  cache.keep(read(3), CacheDType::f32, decoded(read(3)));
  EXPECT_EQ(length(2), 0);
  EXPECT_EQ(length(1), 20);
  EXPECT_EQ(length(3), 20);
  EXPECT_FALSE(cache.wants(read(3), CacheDType::f32));
  EXPECT_TRUE(cache.wants(read(3), CacheDType::bf16));
  EXPECT_TRUE(cache.wants(read(2), CacheDType::f32));
  Ids longer = read(3);
  longer.push_back(9);
  cache.keep(longer, CacheDType::f32, decoded(longer));  // takes the place of its beginning
  EXPECT_LE(cache.bytes(), 2 * each + 1);
  EXPECT_EQ(cache.find(longer, CacheDType::f32).length, 20);
  generate::PrefixCache small(each - 1, 1);
  small.keep(read(1), CacheDType::f32, decoded(read(1)));
  EXPECT_EQ(small.bytes(), 0u);
}

TEST_P(Gpt2Generation, AnErrorEndsItsRequestAlone) {
  Generation generation(*model_);
  const GenerationRequest sound{.prompt = {5, 6, 7}, .options = {.max_new_tokens = 6}};
  GenerationRequest cold = sound, throws = sound, stopped = sound, unfit = sound;
  cold.options.do_sample = true;
  cold.options.temperature = 1e-300;
  throws.hooks.on_token = [](std::size_t, std::size_t, std::int64_t) -> bool { throw Error("own: enough"); };
  std::atomic<bool> stop{false};
  stopped.hooks.stop = &stop;
  unfit.hooks.capture = {"no.such.*"};
  const std::uint64_t first = generation.add(sound), second = generation.add(cold),
                      third = generation.add(throws), fourth = generation.add(stopped),
                      fifth = generation.add(unfit);
  EXPECT_ERROR(generation.remove(first),
               "expected a finished request, got 1, which is not (cancel it first)");
  generation.step();
  stop = true;
  std::vector<std::uint64_t> finished;
  while (!generation.idle()) {
    for (const std::uint64_t request : generation.step().finished) finished.push_back(request);
  }
  EXPECT_EQ(finished.size(), 3u);  // two ended in the first step
  expect_same(generation.remove(first), lone(*model_, sound));
  EXPECT_ERROR(generation.remove(second), "expected finite scores to sample from");
  EXPECT_ERROR(generation.remove(third), "own: enough");
  EXPECT_THROW(generation.remove(fourth), Canceled);
  EXPECT_ERROR(generation.remove(fifth), "no.such");
  EXPECT_ERROR(generation.remove(fifth), "expected a request that was added and not removed, got 5");
  EXPECT_ERROR(generation.cancel(9), "expected a request that was added and not removed, got 9");
  EXPECT_ERROR(generation.cached_tokens(9), "got 9");
}

TEST_P(Gpt2Generation, RefusesWhatSearchPromptsRefuses) {
  Generation generation(*model_);
  EXPECT_ERROR(generation.add({.prompt = {}}), "expected a prompt with at least one token");
  EXPECT_ERROR(generation.add({.prompt = {512}}), "expected tokens below 512, got 512 in the prompt");
  EXPECT_ERROR(generation.add({.prompt = Ids(65, 5)}), "expected room for a new token");
  EXPECT_ERROR(generation.add({.prompt = {5}, .options = {.temperature = NAN}}), "temperature");
  EXPECT_ERROR(generation.add({.prompt = {5}, .top = -1}), "expected top of at least 0, got -1");
  EXPECT_ERROR(generation.add({.prompt = {5}, .hooks = {.sources = {{1}, {2}}}}),
               "expected the source of one row, got 2");
  EXPECT_TRUE(generation.idle());
  EXPECT_ERROR(Generation(*model_, {.rows = 0}),
               "expected limits of at least 1 row and 1 prompt token, got 0");
  EXPECT_ERROR(Generation(*model_, {.prompt_tokens = 0}), "1 prompt token, got 16 and 0");
}

TEST_P(Gpt2Generation, CapturesAttentionAsSearchPromptsDoes) {
  Generation generation(*model_, {.prompt_tokens = 2});
  const GenerationRequest plain{.prompt = {5, 6, 7, 8, 9}, .options = {.max_new_tokens = 6}};
  GenerationRequest captures = plain, beams = plain;
  captures.hooks.capture = {"*.self_attn.weights"};
  beams.hooks.capture = captures.hooks.capture;
  beams.options.num_beams = 3;
  for (const GenerationRequest& request : {plain, captures, beams}) generation.add(request);
  const auto results = run_to_the_end(generation);
  expect_same(results.at(1), lone(*model_, plain));
  expect_same(results.at(2), lone(*model_, captures));
  EXPECT_FALSE(results.at(2)[0].captured.empty());
  expect_same(results.at(3), lone(*model_, beams));
}

TEST_P(Gpt2Generation, EndsAtTheLastPosition) {
  Generation generation(*model_);
  const GenerationRequest request{.prompt = Ids(60, 5), .options = {.max_new_tokens = 50}};
  const std::uint64_t number = generation.add(request);
  const auto found = run_to_the_end(generation).at(number);
  EXPECT_EQ(found[0].ids.size(), 5u);
  EXPECT_EQ(found[0].finish_reason, FinishReason::positions);
}

TEST_P(Gpt2Generation, KeepsToItsRows) {
  Generation generation(*model_, {.rows = 4});
  const auto add = [&](std::int64_t beams, std::int64_t sequences) {
    return generation.add(
        {.prompt = {5, 6, 7},
         .options = {
             .max_new_tokens = 5, .num_beams = beams, .num_return_sequences = sequences, .do_sample = true}});
  };
  add(1, 3);
  add(1, 1);
  const std::uint64_t wide = add(6, 1);  // more than there are: alone
  const std::uint64_t last = add(1, 1);
  EXPECT_EQ(generation.step().tokens.size(), 4u);
  EXPECT_EQ(generation.running(), 2);
  generation.cancel(1);
  EXPECT_EQ(generation.running(), 1);
  EXPECT_EQ(generation.step().tokens.size(), 1u);  // the wide one waits for all rows, the last behind it
  generation.cancel(2);
  generation.step();
  EXPECT_EQ(generation.running(), 1);
  EXPECT_EQ(generation.waiting(), 1);
  generation.cancel(wide);
  EXPECT_EQ(generation.step().tokens.size(), 1u);
  const auto results = run_to_the_end(generation);
  EXPECT_EQ(results.at(last)[0].ids.size(), 5u);
  EXPECT_EQ(generation.remove(1)[0].ids.size(), 1u);
  EXPECT_EQ(generation.remove(wide).size(), 1u);
}

}  // namespace
}  // namespace heed
