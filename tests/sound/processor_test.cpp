#include "heed/sound/processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numbers>

#include "heed/io/safetensors.h"
#include "heed/threads.h"
#include "reference/error.h"
#include "reference/near.h"
#include "reference/temporary_folder.h"
#include "sound/fixtures.h"

namespace heed {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

Tensor expected_features(const std::string& name) {
  static const SafetensorsFile file = SafetensorsFile::open(kFixtures / "features.safetensors");
  return file.get(name);
}

Tensor part(const Tensor& samples, std::int64_t begin, std::int64_t end) {
  return samples.as_strided({end - begin}, {1}, begin);
}

Tensor speech() { return load_sound(kFixtures / "speech.wav"); }
std::vector<Tensor> two_sounds() { return {speech(), part(speech(), 1000, 4000)}; }
std::vector<Tensor> two_waves() { return {part(speech(), 0, 700), part(speech(), 1000, 1500)}; }

void expect_features(const SoundInputs& got, const std::string& name, double tolerance = 1e-4) {
  SCOPED_TRACE(name);
  reference::expect_near(got.features, expected_features(name), tolerance);
}

SoundProcessor processor(const std::string& json) {
  const TemporaryFolder folder;
  spill(folder / "preprocessor_config.json", json);
  return load_sound_processor(folder.path());
}

std::string config_error(const std::string& json) {
  return error_of([&] { processor(json); });
}

TEST(SoundProcessor, WhisperEqualsTransformers) {
  const SoundProcessor whisper = load_sound_processor(kFixtures / "whisper-80");
  EXPECT_EQ(whisper.type(), "WhisperFeatureExtractor");
  EXPECT_EQ(whisper.rate(), 16'000);
  EXPECT_EQ(whisper.window(), 16'000);
  const SoundInputs inputs = whisper(speech(), {.attention_mask = true});
  expect_features(inputs, "whisper-80");
  EXPECT_EQ(inputs.attention_mask.to_vector<std::int64_t>(),
            expected_features("whisper-80.mask").to_vector<std::int64_t>());
  EXPECT_FALSE(whisper(speech()).attention_mask.defined());
}

TEST(SoundProcessor, WholeSoundsWithMoreBandsEqualTransformers) {
  expect_features(load_sound_processor(kFixtures / "whisper-128")(two_sounds(), {.whole = true}),
                  "whisper-128");
}

TEST(SoundProcessor, NormalizedSoundsAndOtherFramesEqualTransformers) {
  expect_features(load_sound_processor(kFixtures / "whisper-normalized")(speech(), {.normalize = true}),
                  "whisper-normalized");
}

TEST(SoundProcessor, WhisperCutsWhatIsTooLong) {
  const SoundProcessor whisper = load_sound_processor(kFixtures / "whisper-80");
  std::vector<float> samples(20'000, 0.25F);
  const Tensor cut = whisper(Tensor::from(samples, {20'000})).features;
  EXPECT_EQ(cut.shape(), (Shape{1, 80, 100}));
  samples.resize(16'000);
  EXPECT_EQ(cut.to_vector<float>(), whisper(Tensor::from(samples, {16'000})).features.to_vector<float>());
}

// A tone falls into the band around its frequency: of the slaney filters, 1000 Hz is 15 mels of 45.245.
TEST(SoundProcessor, AToneIsLoudestInItsBand) {
  std::vector<float> tone(16'000);
  for (std::size_t i = 0; i < tone.size(); ++i) {
    tone[i] =
        static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * 1000 * static_cast<double>(i) / 16'000));
  }
  const std::vector<float> x = load_sound_processor(kFixtures / "whisper-80")(Tensor::from(tone, {16'000}))
                                   .features.to_vector<float>();
  std::int64_t loudest = 0;
  for (std::int64_t band = 0; band < 80; ++band) {
    if (x[static_cast<std::size_t>(band * 100 + 50)] > x[static_cast<std::size_t>(loudest * 100 + 50)])
      loudest = band;
  }
  EXPECT_NEAR(static_cast<double>(loudest), 15 / 45.245 * 81 - 1, 1);
}

TEST(SoundProcessor, KaldiEqualsTransformers) {
  const SoundProcessor ast = load_sound_processor(kFixtures / "ast");
  EXPECT_EQ(ast.window(), 400 + 39 * 160);
  const SoundInputs inputs = ast(two_sounds());
  EXPECT_EQ(inputs.features.shape(), (Shape{2, 40, 64}));
  EXPECT_FALSE(inputs.attention_mask.defined());
  expect_features(inputs, "ast");
}

TEST(SoundProcessor, WaveformsEqualTransformers) {
  const SoundProcessor plain = load_sound_processor(kFixtures / "wav2vec2");
  EXPECT_EQ(plain.window(), std::nullopt);
  const SoundInputs unmasked = plain(two_waves());
  expect_features(unmasked, "wav2vec2", 1e-5);
  EXPECT_FALSE(unmasked.attention_mask.defined());
  const SoundInputs masked = load_sound_processor(kFixtures / "wav2vec2-mask")(two_waves());
  expect_features(masked, "wav2vec2-mask", 1e-5);
  EXPECT_EQ(masked.attention_mask.to_vector<std::int64_t>(),
            expected_features("wav2vec2-mask.mask").to_vector<std::int64_t>());
  expect_features(load_sound_processor(kFixtures / "moonshine")(two_waves()[1]), "moonshine", 0);
}

TEST(SoundProcessor, AnyNumberOfThreadsGivesTheSameBits) {
  const SoundProcessor whisper = load_sound_processor(kFixtures / "whisper-80");
  const int before = threads();
  set_threads(1);
  const std::vector<float> one = whisper(speech()).features.to_vector<float>();
  set_threads(4);
  EXPECT_EQ(whisper(speech()).features.to_vector<float>(), one);
  set_threads(before);
}

TEST(SoundProcessor, ReadsTheConfigurationOfAProcessor) {
  expect_features(load_sound_processor(kFixtures / "processor")(speech()), "whisper-80");
}

TEST(SoundProcessor, FindsTheClassByTheModelType) {
  const TemporaryFolder folder;
  spill(folder / "preprocessor_config.json", R"({"do_normalize": false})");
  spill(folder / "config.json", R"({"model_type": "moonshine"})");
  EXPECT_EQ(load_sound_processor(folder.path()).type(), "Wav2Vec2FeatureExtractor");
}

TEST(SoundProcessor, RefusesConfigurationsByKey) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { load_sound_processor(folder.path()); }),
              HasSubstr("preprocessor_config.json: not found (it tells how sound becomes a model's input"));
  EXPECT_THAT(
      config_error("{}"),
      EndsWith("feature_extractor_type: expected one of ASTFeatureExtractor, Wav2Vec2FeatureExtractor, "
               "WhisperFeatureExtractor, got nothing"));
  EXPECT_THAT(config_error(R"({"feature_extractor_type": "ClapFeatureExtractor"})"),
              EndsWith("got \"ClapFeatureExtractor\""));

  const auto whisper = [](const std::string& member) {
    return config_error(R"({"feature_extractor_type": "WhisperFeatureExtractor", )" + member + "}");
  };
  EXPECT_NO_THROW(processor(R"({"feature_extractor_type": "WhisperFeatureExtractor", "mel_filters": [[0, 1]],
                                "do_normalize": true, "processor_class": "WhisperProcessor"})"));
  EXPECT_THAT(whisper(R"("top_db": 80)"), HasSubstr("top_db: expected a key of WhisperFeatureExtractor"));
  EXPECT_THAT(whisper(R"("dither": 0.1)"), EndsWith("dither: expected 0 (heed adds no noise), got 0.1"));
  EXPECT_THAT(whisper(R"("n_samples": 7)"),
              EndsWith("n_samples: expected 480000 (chunk_length · sampling_rate), got 7"));
  EXPECT_THAT(whisper(R"("nb_max_frames": 7)"), HasSubstr("nb_max_frames: expected 3000 ("));
  EXPECT_THAT(whisper(R"("n_fft": 401)"), EndsWith("n_fft: expected an even integer, got 401"));
  EXPECT_THAT(whisper(R"("feature_size": 0)"), HasSubstr("feature_size: expected an integer from 1 to 1024"));
  EXPECT_THAT(whisper(R"("padding_side": "left")"),
              EndsWith("padding_side: expected \"right\", got \"left\""));
  EXPECT_THAT(whisper(R"("sampling_rate": "x")"), EndsWith("sampling_rate: expected an integer, got \"x\""));

  const auto ast = [](const std::string& member) {
    return config_error(R"({"feature_extractor_type": "ASTFeatureExtractor", )" + member + "}");
  };
  EXPECT_THAT(ast(R"("sampling_rate": 8000)"), HasSubstr("sampling_rate: expected 16000 ("));
  EXPECT_THAT(ast(R"("std": 0)"), EndsWith("std: expected a number other than 0, got 0"));
  EXPECT_THAT(ast(R"("n_fft": 400)"), HasSubstr("n_fft: expected a key of ASTFeatureExtractor"));
}

TEST(SoundProcessor, RefusesWhatItCannotProcess) {
  const SoundProcessor whisper = load_sound_processor(kFixtures / "whisper-80");
  const SoundProcessor ast = load_sound_processor(kFixtures / "ast");
  const auto refusal = [](const SoundProcessor& processor, const Tensor& sound, const SoundCall& call = {}) {
    return error_of([&] { processor(sound, call); });
  };
  EXPECT_EQ(error_of([&] { whisper(std::span<const Tensor>()); }),
            "SoundProcessor: expected at least one sound, got none");
  EXPECT_EQ(refusal(whisper, Tensor::zeros({1, 400})),
            "SoundProcessor: expected sounds f32[samples], got f32[1, 400]");
  EXPECT_EQ(refusal(whisper, Tensor::zeros({400}, DType::f64)),
            "SoundProcessor: expected sounds f32[samples], got f64[400]");
  EXPECT_THAT(refusal(whisper, Tensor::zeros({0})), HasSubstr("got f32[0]"));
  EXPECT_THAT(refusal(whisper, Tensor::full({400}, std::numeric_limits<double>::quiet_NaN())),
              HasSubstr("expected finite samples"));
  EXPECT_EQ(refusal(whisper, Tensor::zeros({200}), {.whole = true}),
            "SoundProcessor: expected sounds of more than 200 samples, got 200");
  EXPECT_EQ(refusal(ast, Tensor::zeros({399})),
            "SoundProcessor: expected sounds of at least 400 samples, got 399");
  EXPECT_THAT(refusal(ast, Tensor::zeros({400}), {.whole = true}),
              HasSubstr("got one for ASTFeatureExtractor"));
  EXPECT_THAT(refusal(ast, Tensor::zeros({400}), {.attention_mask = true}), HasSubstr("no attention mask"));
}

TEST(SoundWindows, AreThePartsOfTheRecordingProcessedAlone) {
  const SoundProcessor whisper = load_sound_processor(kFixtures / "whisper-80");
  SoundWindows windows(whisper, SoundReader(kFixtures / "speech.wav"), 0.2);
  const auto first = windows.next(), second = windows.next();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->start, 0);
  EXPECT_DOUBLE_EQ(first->seconds, 0.2);
  EXPECT_DOUBLE_EQ(second->start, 0.2);
  EXPECT_DOUBLE_EQ(second->seconds, 0.15);
  EXPECT_EQ(first->inputs.features.to_vector<float>(),
            whisper(part(speech(), 0, 3200)).features.to_vector<float>());
  EXPECT_EQ(second->inputs.features.to_vector<float>(),
            whisper(part(speech(), 3200, 5600)).features.to_vector<float>());
  EXPECT_FALSE(windows.next());
}

TEST(SoundWindows, ARestThatIsTooShortIsLeftOut) {
  const SoundProcessor ast = load_sound_processor(kFixtures / "ast");
  SoundWindows windows(ast, SoundReader(kFixtures / "speech.wav"), 5400.0 / 16'000);  // of 5600 samples
  EXPECT_TRUE(windows.next());
  EXPECT_FALSE(windows.next());
}

TEST(SoundWindows, RefuseOtherRatesAndLengths) {
  const auto refusal = [](const char* name, const SoundOptions& options, std::optional<double> seconds) {
    return error_of([&] {
      SoundWindows(load_sound_processor(kFixtures / name), SoundReader(kFixtures / "speech.wav", options),
                   seconds);
    });
  };
  EXPECT_EQ(refusal("whisper-80", {.rate = 8000}, {}),
            "SoundWindows: expected a reader of 16000 samples a second, got 8000");
  EXPECT_THAT(refusal("whisper-80", {}, 2), HasSubstr("SoundWindows: seconds: expected from"));
  EXPECT_THAT(refusal("wav2vec2", {}, {}), HasSubstr("got nothing (the model takes any number)"));
}

}  // namespace
}  // namespace heed
