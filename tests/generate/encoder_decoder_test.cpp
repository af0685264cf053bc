// Compares searches with real models with the results of Hugging Face transformers (tests/fixtures), and the
// captured attention with a full pass over the finished hypothesis.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>

#include "generate/runs.h"
#include "heed/error.h"
#include "heed/generate/search.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"
#include "heed/threads.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/tensors.h"

namespace heed {
namespace {

using Json = nlohmann::json;

/// Returns the sources of a run without their padding.
std::vector<std::vector<std::int64_t>> sources_of(const Json& run) {
  const auto ids = run.at("inputs").at("input_ids").get<std::vector<std::vector<std::int64_t>>>();
  const auto mask = run.at("inputs").at("attention_mask").get<std::vector<std::vector<std::int64_t>>>();
  std::vector<std::vector<std::int64_t>> sources;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto length = std::count(mask[i].begin(), mask[i].end(), 1);
    sources.emplace_back(ids[i].begin(), ids[i].begin() + length);
  }
  return sources;
}

/// The models are too small for several threads, and idle threads waiting for each other would slow down
/// tests that run in parallel.
class Search : public ::testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path fixture_ = std::filesystem::path(HEED_FIXTURES) / GetParam();
  void SetUp() override { set_threads(1); }
  void TearDown() override { set_threads(threads_); }
  int threads_ = threads();
};

TEST_P(Search, EveryRunFindsWhatTransformersFound) {
  const auto model = load_as<EncoderDecoderModel>(fixture_);
  const Json runs = read_json(fixture_ / "generation.json").at("runs");
  ASSERT_GE(runs.size(), 9u);
  for (const Json& run : runs) {
    const auto sources = sources_of(run);
    // All sources in one batch, then each one alone.
    for (const std::int64_t batch_tokens : {100000, 1})
      expect_found(search_sources(*model, sources, options_of_run(fixture_, run), batch_tokens), run);
  }
}

// Sound and images: all rows in one batch, then each one alone.
TEST(SearchFeatures, EveryRunFindsWhatTransformersFound) {
  for (const char* name : {"whisper", "whisper-untied", "moonshine", "vit-gpt2", "trocr"}) {
    const auto fixture = std::filesystem::path(HEED_FIXTURES) / name;
    const auto model = load_as<EncoderDecoderModel>(fixture);
    const Tensor features = read_tensors(fixture / "inputs.safetensors").at(model->input().name);
    const Json runs = read_json(fixture / "generation.json").at("runs");
    ASSERT_GE(runs.size(), 3u);
    for (const Json& run : runs) {
      const auto rows = run.at("inputs_from").at("rows").get<std::vector<std::int64_t>>();
      const auto prompt = run.value("decoder_input_ids", std::vector<std::int64_t>{});
      const Tensor chosen = gather(features, 0, Tensor::from(rows, {static_cast<std::int64_t>(rows.size())}));
      for (const std::int64_t batch_tokens : {100000, 1})
        expect_found(search_features(*model, chosen, prompt, options_of_run(fixture, run), batch_tokens),
                     run);
    }
  }
}

// Of each generated token, from the step that generated it.
TEST(SearchFeatures, CapturesTheCrossAttentionOfTransformers) {
  for (const char* name : {"moonshine", "vit-gpt2", "trocr"}) {
    const auto fixture = std::filesystem::path(HEED_FIXTURES) / name;
    const auto model = load_as<EncoderDecoderModel>(fixture);
    const Tensor features = read_tensors(fixture / "inputs.safetensors").at(model->input().name);
    const TensorMap expected = read_tensors(fixture / "generation_attentions.safetensors");
    const Json runs = read_json(fixture / "generation.json").at("runs");
    const auto run = std::find_if(runs.begin(), runs.end(),
                                  [](const Json& one) { return one.at("name") == "greedy_batch"; });
    ASSERT_NE(run, runs.end());
    const auto found = search_features(*model, features, {}, options_of_run(fixture, *run), 100000,
                                       {.capture = {"decoder.layers.*.cross_attn.weights"}});
    ASSERT_EQ(expected.size(), 2u);
    for (const auto& [key, want] : expected) {  // greedy_batch.cross_attentions.LAYER
      for (std::size_t row = 0; row < found.size(); ++row) {
        const Tensor& weights = found[row].front().captured.at(
            "decoder.layers." + key.substr(key.rfind('.') + 1) + ".cross_attn.weights");
        const auto i = static_cast<std::int64_t>(row);
        EXPECT_LE(relative_error(weights, reshape(slice(want, 0, i, i + 1), weights.shape())), 1e-5)
            << name << " " << key << " row " << row;
      }
    }
  }
}

// As in transformers: the decoder's prompt is not a source, and audio has no tokens.
TEST(SearchFeatures, OptionsOfTheSourcesTokensDoNothing) {
  const auto fixture = std::filesystem::path(HEED_FIXTURES) / "whisper-untied";
  const auto model = load_as<EncoderDecoderModel>(fixture);
  const Tensor features = read_tensors(fixture / "inputs.safetensors").at("input_features");
  const auto transcript = [&](const std::vector<std::int64_t>& prompt, const GenerationOptions& options) {
    return search_features(*model, slice(features, 0, 0, 1), prompt, options, 4096).front().front().ids;
  };
  std::vector<std::int64_t> prompt{59};
  const std::vector<std::int64_t> first = transcript(prompt, {});
  prompt.insert(prompt.end(), first.begin(), first.begin() + 4);
  const std::vector<std::int64_t> plain = transcript(prompt, {});
  EXPECT_NE(std::find_first_of(plain.begin(), plain.end(), prompt.begin(), prompt.end()), plain.end());
  EXPECT_EQ(transcript(prompt, {.encoder_no_repeat_ngram_size = 1}), plain);
  EXPECT_EQ(transcript(prompt, {.encoder_repetition_penalty = 1000}), plain);
  EXPECT_EQ(transcript(prompt, {.encoder_repetition_penalty = 0.001}), plain);
}

TEST(SearchFeatures, DrawsAndCapturesTheSameInAnyBatch) {
  const auto fixture = std::filesystem::path(HEED_FIXTURES) / "whisper-untied";
  const auto model = load_as<EncoderDecoderModel>(fixture);
  const Tensor features = read_tensors(fixture / "inputs.safetensors").at("input_features");
  const Tensor same = gather(features, 0, Tensor::zeros({3}, DType::i64));  // only the sampling differs
  const GenerationOptions options{.max_new_tokens = 8, .do_sample = true};
  const SearchHooks hooks{.capture = {"decoder.layers.0.cross_attn.weights"}};
  const auto whole = search_features(*model, same, {59, 3}, options, 4096, hooks),
             alone = search_features(*model, same, {59, 3}, options, 1, hooks);
  ASSERT_EQ(whole.size(), 3u);
  EXPECT_NE(whole[0].front().ids, whole[1].front().ids);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].front().ids, alone[i].front().ids) << i;
    const Tensor& weights = whole[i].front().captured.at("decoder.layers.0.cross_attn.weights");
    EXPECT_EQ(weights.size(1), static_cast<std::int64_t>(whole[i].front().ids.size())) << i;
  }
  const auto wide = search_features(*model, same.to(DType::f64), {59, 3}, options, 4096);
  EXPECT_EQ(wide[1].front().ids, whole[1].front().ids);
  SearchHooks named = hooks;
  named.sample_ids = {7, 0, 7};
  const auto found = search_features(*model, same, {59, 3}, options, 4096, named);
  EXPECT_EQ(found[1].front().ids, whole[0].front().ids);
  EXPECT_EQ(found[0].front().ids, found[2].front().ids);
}

TEST(SearchFeatures, EndsAtTheLastPositionAndRefusesWhatDoesNotFit) {
  const auto fixture = std::filesystem::path(HEED_FIXTURES) / "whisper-untied";
  const auto model = load_as<EncoderDecoderModel>(fixture);
  const Tensor features = read_tensors(fixture / "inputs.safetensors").at("input_features");
  GenerationOptions options;
  options.max_new_tokens = 100;
  // 20 positions; the last token is never fed.
  EXPECT_EQ(search_features(*model, features, {59, 3, 44}, options, 4096).front().front().ids.size(), 18u);
  const auto refuses = [&](const Tensor& sound, const std::vector<std::int64_t>& prompt,
                           const std::string& told) {
    EXPECT_ERROR(search_features(*model, sound, prompt, options, 4096), told) << sound.str();
  };
  refuses(features, {59, 61}, "expected tokens below 61, got 61 in the decoder's prompt");
  refuses(features, {-1}, "expected tokens below 61, got -1 in the decoder's prompt");
  refuses(features, std::vector<std::int64_t>(21, 3),
          "got a prompt of 21 tokens where the model's positions allow 20");
  refuses(slice(features, 2, 0, 40).contiguous(), {},
          "expected input_features of rows [16, 42], got f32[3, 16, 40]");
  refuses(slice(features, 0, 0, 0).contiguous(), {}, "of at least one row, got f32[0, 16, 42]");
  refuses(Tensor::zeros({16, 42}), {}, "of at least one row, got f32[16, 42]");
  refuses(Tensor::zeros({1, 16, 42}, DType::i64), {}, "of at least one row, got i64[1, 16, 42]");
  EXPECT_ERROR(search_features(*model, features, {}, options, 0), "batch_tokens of at least 1, got 0");
  EXPECT_ERROR(search_sources(*model, std::vector<std::vector<std::int64_t>>{{3, 4}}, options, 4096),
               "expected input_features, got token ids");
}

/// Returns the decoder's attention when it is fed `hypothesis` (teacher forcing).
TensorMap teacher_forced(const EncoderDecoderModel& model, const std::vector<std::int64_t>& source,
                         const std::vector<std::int64_t>& ids) {
  const auto length = static_cast<std::int64_t>(source.size());
  Context context;
  return model.forward({{"input_ids", Tensor::from(source, {1, length})},
                        {"attention_mask", Tensor::full({1, length}, 1, DType::i64)},
                        {"labels", Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())})}},
                       {.attentions = true}, context);
}

void expect_close(const Tensor& actual, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.numel(), expected.numel()) << what;
  const auto a = actual.to_vector<float>(), b = expected.to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5) << what << " element " << i;
}

TEST_P(Search, CapturedAttentionIsThatOfTheFinishedHypotheses) {
  const auto model = load_as<EncoderDecoderModel>(fixture_);
  const Json runs = read_json(fixture_ / "generation.json").at("runs");
  Json batch_run;
  for (const Json& run : runs) {
    if (run.at("name") == "beam4_batch_ends") batch_run = run;
  }
  const auto sources = sources_of(batch_run);
  GenerationOptions options = options_of_run(fixture_, batch_run);
  for (const std::int64_t beams : {4, 1}) {
    options.num_beams = options.num_return_sequences = beams;
    const auto found = search_sources(
        *model, sources, options, 100000,
        {.capture = {"decoder.layers.*.cross_attn.weights", "decoder.layers.*.self_attn.weights"}});
    for (std::size_t i = 0; i < sources.size(); ++i) {
      for (const Hypothesis& h : found[i]) {
        const TensorMap full = teacher_forced(*model, sources[i], h.ids);
        ASSERT_EQ(h.captured.size(), fixture_.filename() == "pegasus" ? 2u : 4u);
        for (const auto& [name, captured] : h.captured) {
          const std::string layer = name.substr(std::string("decoder.layers.").size(), 1);
          const bool cross = name.ends_with("cross_attn.weights");
          expect_close(captured, full.at((cross ? "cross_attentions." : "decoder_attentions.") + layer),
                       name);
        }
      }
    }
  }
}

// Recurrent models remember vectors instead of keys and values: beams, batches and captured attention.
TEST(SearchRecurrent, BatchesFindWhatSourcesAloneFindAndAttentionFollows) {
  for (const char* name : {"none-gru", "additive-gru", "general-lstm-feeding", "concat-lstm"}) {
    SCOPED_TRACE(name);
    const auto model =
        load_as<EncoderDecoderModel>(std::filesystem::path(HEED_FIXTURES) / "recurrent" / name);
    const std::vector<std::vector<std::int64_t>> sources{{5, 6, 7, 8, 9}, {10, 11}, {12, 4, 13, 5}};
    GenerationOptions options{.max_new_tokens = 7};
    options.eos_token_id = {model->eos_id()};
    options.pad_token_id = model->pad_id();
    options.decoder_start_token_id = model->decoder_start_id();
    SearchHooks hooks;
    if (model->has_cross_attention()) hooks.capture = {"decoder.layers.*.cross_attn.weights"};
    for (const std::int64_t beams : {1, 3}) {
      options.num_beams = options.num_return_sequences = beams;
      const auto together = search_sources(*model, sources, options, 100000, hooks);
      const auto alone = search_sources(*model, sources, options, 1, hooks);
      for (std::size_t i = 0; i < sources.size(); ++i) {
        ASSERT_EQ(together[i].size(), static_cast<std::size_t>(beams));
        for (std::size_t k = 0; k < together[i].size(); ++k) {
          const Hypothesis& h = together[i][k];
          EXPECT_EQ(h.ids, alone[i][k].ids);
          EXPECT_EQ(h.score, alone[i][k].score);
          EXPECT_EQ(h.captured.size(), hooks.capture.size());
          const TensorMap full = teacher_forced(*model, sources[i], h.ids);
          for (const auto& [tap, captured] : h.captured)
            expect_close(captured, full.at("cross_attentions." + tap.substr(15, 1)), tap);
        }
      }
    }
  }
}

// The flag is set while the encoder's first layer processes the source; no further layer is run.
TEST_P(Search, CancelsWithinTheSource) {
  const auto model = load_as<EncoderDecoderModel>(fixture_);
  std::atomic<bool> stop{false};
  int first = 0, later = 0;
  Taps taps;
  taps.listen("*.layers.*.out", [&](const std::string& name, Tensor&) {
    ++(name.find(".layers.0.") != name.npos ? first : later);
    stop = true;
  });
  Context context;
  context.taps = &taps;
  context.stop = &stop;
  const Tensor ids = Tensor::from<std::int64_t>({5, 6, 7}, {1, 3});
  EXPECT_THROW(model->decode({ids, Tensor::full({1, 3}, 1, DType::i64)}, context), Canceled);
  EXPECT_GE(first, 1);
  EXPECT_EQ(later, 0);
  const std::vector<std::vector<std::int64_t>> sources{{5, 6, 7}};
  EXPECT_THROW(search_sources(*model, sources, {}, 100, {.stop = &stop}), Canceled);
  const TensorMap inputs{{"input_ids", ids}, {"decoder_input_ids", ids}};
  EXPECT_THROW(model->forward(inputs, {}, context), Canceled);
}

INSTANTIATE_TEST_SUITE_P(Families, Search,
                         ::testing::Values("bart", "marian", "t5", "t5-v1.1", "m2m100", "pegasus"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

}  // namespace
}  // namespace heed
