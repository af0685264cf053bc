// Generation with encoder-decoders against a search of each source alone: ids, scores and captured attention
// to the bit, whatever else runs, and however long the other sources are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "generate/generation_results.h"
#include "heed/generate/generation.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"
#include "reference/error.h"
#include "reference/tensors.h"

namespace heed {
namespace {

using Source = std::vector<std::int64_t>;

std::filesystem::path source_fixture(const std::string& name) {
  return std::filesystem::path(HEED_FIXTURES) / name;
}

/// A search of the request alone.
std::vector<Hypothesis> searched(const EncoderDecoderModel& model, const GenerationRequest& request) {
  SearchHooks hooks = request.hooks;
  hooks.sample_ids = {request.sample_id};
  if (request.features.defined())
    return search_features(model, request.features, request.prompt, request.options, 1, hooks).front();
  if (request.prompt.empty())
    return search_sources(model, std::span(&request.source, 1), request.options, 1, hooks).front();
  GenerationOptions options = request.options;
  if (options.eos_token_id.empty()) options.eos_token_id = {model.eos_id()};
  hooks.sources = {request.source};
  if (const auto positions = model.max_positions()) hooks.longest = *positions + 1;
  Context context;
  const std::int64_t length = std::ssize(request.source);
  const auto decoding = model.decode({.ids = Tensor::from(request.source, {1, length})}, context);
  return search(*decoding, std::span(&request.prompt, 1), options, hooks, context).front();
}

/// Requests of every kind, with sources of every length.
class RandomSources : public RandomChoices {
 public:
  RandomSources(const EncoderDecoderModel& model, const std::string& name, std::uint64_t seed)
      : RandomChoices(seed), model_(model) {
    if (model.input().row.rank() > 0)
      features_ = read_tensors(source_fixture(name) / "inputs.safetensors").at(model.input().name);
  }

  GenerationRequest next() {
    GenerationRequest request;
    if (features_.defined()) {
      const auto row = static_cast<std::int64_t>(below(static_cast<std::uint64_t>(features_.size(0))));
      request.features = slice(features_, 0, row, row + 1);
      if (features_.rank() == 2) {  // samples of any number
        const std::int64_t all = features_.size(1);
        request.features = slice(request.features, 1, 0, all - static_cast<std::int64_t>(below(all / 2)));
      }
    } else {
      request.source = ids(1 + below(30));
    }
    if (one_in(3)) {
      request.prompt = ids(below(4));
      request.prompt.insert(request.prompt.begin(), model_.decoder_start_id());
    }
    GenerationOptions& options = choose(request, 12);
    options.top_k = one_in(2) ? 0 : 20;
    options.cache_dtype = request.prompt.empty() && one_in(6) ? CacheDType::int8 : CacheDType::f32;
    if (one_in(3)) options.encoder_repetition_penalty = 1.5;
    if (one_in(4)) options.encoder_no_repeat_ngram_size = 1;
    if (one_in(4)) options.no_repeat_ngram_size = 2;
    if (one_in(4)) options.forced_bos_token_id = 7;
    if (one_in(2)) options.eos_token_id = ids(3);
    const std::uint64_t kind = below(4);
    if (kind == 0 && options.do_sample) options.num_return_sequences = 3;
    if (kind == 1) {
      options.num_beams = 2 + static_cast<std::int64_t>(below(3));
      options.num_return_sequences = 2;
    }
    return request;
  }

 private:
  Source ids(std::uint64_t count) {
    Source ids;
    for (std::uint64_t i = 0; i < count; ++i)
      ids.push_back(static_cast<std::int64_t>(below(static_cast<std::uint64_t>(model_.vocab_size()))));
    return ids;
  }

  const EncoderDecoderModel& model_;
  Tensor features_;
};

class SourceGeneration : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<EncoderDecoderModel> model_ = load_as<EncoderDecoderModel>(source_fixture(GetParam()));
};
INSTANTIATE_TEST_SUITE_P(All, SourceGeneration,
                         ::testing::Values("t5", "t5-v1.1", "marian", "bart", "pegasus", "m2m100", "whisper",
                                           "whisper-untied", "moonshine", "transformer-seq2seq",
                                           "transformer-seq2seq-window", "recurrent/general-lstm-feeding"));

TEST_P(SourceGeneration, RandomSchedulesGiveEachRequestWhatItGetsAlone) {
  constexpr int kSchedules = 3, kRequests = 14;
  for (int schedule = 0; schedule < kSchedules; ++schedule) {
    SCOPED_TRACE(schedule);
    RandomSources random(*model_, GetParam(), 20 + static_cast<std::uint64_t>(schedule));
    GenerationLimits limits;
    limits.rows = 2 + static_cast<std::int64_t>(random.below(9));
    limits.prompt_tokens = schedule == 0 ? 256 : 1 + static_cast<std::int64_t>(random.below(60));
    limits.cached_bytes = 1 << 20;
    Generation generation(*model_, limits);
    std::map<std::uint64_t, GenerationRequest> asked;
    std::map<std::uint64_t, std::map<std::int64_t, Source>> told;
    std::uint64_t canceled = 0;
    std::int64_t most = 0;
    int added = 0;
    while (added < kRequests || !generation.idle()) {
      while (added < kRequests && !random.one_in(3)) {
        const GenerationRequest request = random.next();
        asked[generation.add(request)] = request;
        ++added;
      }
      if (canceled == 0 && added > kRequests / 2 && !asked.empty()) {
        canceled = asked.begin()->first;
        generation.cancel(canceled);
      }
      const Generation::Step step = generation.step();
      most = std::max(most, generation.running());
      for (const GeneratedToken& token : step.tokens) told[token.request][token.sequence].push_back(token.id);
      for (const std::uint64_t number : step.finished) {
        SCOPED_TRACE(fmt::format("request {}", number));
        const GenerationRequest request = asked.at(number);
        asked.erase(number);
        EXPECT_EQ(generation.cached_tokens(number), 0);
        const std::vector<Hypothesis> found = generation.remove(number);
        if (number == canceled) continue;
        expect_same(found, searched(*model_, request));
        if (request.options.num_beams > 1) continue;
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_EQ(told[number][static_cast<std::int64_t>(i)], found[i].ids);
      }
    }
    EXPECT_GT(most, 1);
    EXPECT_EQ(generation.cached_bytes(), 0u);
  }
}

TEST_P(SourceGeneration, CapturesAttentionAsASearchDoes) {
  if (!model_->has_cross_attention()) return;
  RandomSources random(*model_, GetParam(), 5);
  Generation generation(*model_);
  GenerationRequest plain = random.next(), captures = random.next();
  captures.prompt.clear();
  captures.options = {.max_new_tokens = 4, .num_beams = 2};
  captures.hooks.capture = {"*cross_attn.weights"};
  generation.add(plain);
  generation.add(captures);
  const auto results = run_to_the_end(generation);
  expect_same(results.at(1), searched(*model_, plain));
  expect_same(results.at(2), searched(*model_, captures));
  EXPECT_FALSE(results.at(2)[0].captured.empty());
}

TEST(SourcesOfGeneration, RefusesWhatASearchRefuses) {
  const auto model = load_as<EncoderDecoderModel>(source_fixture("marian"));
  Generation generation(*model);
  EXPECT_ERROR(generation.add({}), "expected a source or features for an encoder-decoder, got neither");
  EXPECT_ERROR(generation.add({.source = {1}, .features = Tensor::zeros({1, 3})}), "got both");
  EXPECT_ERROR(generation.add({.source = Source(49, 3)}), "expected sources of at most 48 tokens, got 49");
  EXPECT_ERROR(generation.add({.prompt = {541}, .source = {3}}),
               "expected tokens below 541, got 541 in the decoder's prompt");
  EXPECT_ERROR(generation.add({.prompt = Source(49, 3), .options = {.max_new_tokens = 1}, .source = {3}}),
               "expected room for a new token");
  EXPECT_TRUE(generation.idle());
  const std::uint64_t number = generation.add({.source = {541}});  // the encoder says so
  const std::uint64_t good = generation.add({.source = {5, 0}});
  while (!generation.idle()) generation.step();
  EXPECT_ERROR(generation.remove(number), "541");
  EXPECT_NO_THROW(generation.remove(good));

  const auto whisper = load_as<EncoderDecoderModel>(source_fixture("whisper"));
  const Tensor features = read_tensors(source_fixture("whisper") / "inputs.safetensors").at("input_features");
  Generation texts(*whisper);
  EXPECT_ERROR(texts.add({.features = gather(features, 0, Tensor::zeros({2}, DType::i64))}),
               "expected features of one row, got f32[2");
  EXPECT_ERROR(texts.add({.features = Tensor::zeros({3})}), "expected input_features");
  const auto decoder = load_as<DecoderModel>(source_fixture("decoders") / "gpt2");
  Generation prompts(*decoder);
  EXPECT_ERROR(prompts.add({.prompt = {1}, .source = {3}}), "expected a prompt alone for a decoder");
}

}  // namespace
}  // namespace heed
