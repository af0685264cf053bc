// Compares transcripts with those of Whisper's generate in transformers and of OpenAI's whisper
// (tests/fixtures/speech/README.md).
#include "heed/tasks/transcribe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/files/file.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"
#include "tasks/speech.h"
#include "tasks/speech_fixture.h"

namespace heed {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

const Json& expected() {
  static const Json all = read_json((kSpeech / "transcriptions.json").string());
  return all;
}

const SpeechFixture& fixture() {
  static const SpeechFixture one;
  return one;
}

// Greedy search alone.
TranscribeOptions greedy() {
  TranscribeOptions options;
  options.temperatures = {0.0};
  options.compression_ratio_threshold.reset();
  options.log_probability_threshold.reset();
  options.no_speech_threshold.reset();
  return options;
}

void expect_segments(const Transcript& got, const Json& wanted) {
  ASSERT_EQ(got.segments.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE(i);
    const TranscriptSegment& segment = got.segments[i];
    EXPECT_EQ(segment.tokens, wanted[i].at("tokens").get<std::vector<std::int64_t>>());
    EXPECT_NEAR(segment.start, wanted[i].at("start").get<double>(), 1e-6);
    EXPECT_NEAR(segment.end, wanted[i].at("end").get<double>(), 1e-6);
  }
}

void expect_openai(const char* name, const TranscribeOptions& options) {
  SCOPED_TRACE(name);
  const Json& wanted = expected().at("openai").at(name);
  const Transcript got = fixture().transcribe(options);
  EXPECT_EQ(got.language, wanted.at("language"));
  EXPECT_EQ(got.text, wanted.at("text"));
  const Json& segments = wanted.at("segments");
  expect_segments(got, segments);
  for (std::size_t i = 0; i < got.segments.size(); ++i) {
    const TranscriptSegment& segment = got.segments[i];
    EXPECT_EQ(segment.text, segments[i].at("text"));
    EXPECT_NEAR(segment.average_log_probability, segments[i].at("avg_logprob").get<double>(), 1e-4);
    EXPECT_NEAR(segment.compression_ratio.value(), segments[i].at("compression_ratio").get<double>(), 1e-9);
    EXPECT_NEAR(segment.no_speech_probability.value(), segments[i].at("no_speech_prob").get<double>(), 1e-6);
    const Json words = segments[i].value("words", Json::array());
    ASSERT_EQ(segment.words.size(), words.size());
    for (std::size_t w = 0; w < words.size(); ++w) {
      EXPECT_EQ(segment.words[w].text, words[w].at("word"));
      EXPECT_NEAR(segment.words[w].start, words[w].at("start").get<double>(), 1e-6);
      EXPECT_NEAR(segment.words[w].end, words[w].at("end").get<double>(), 1e-6);
      EXPECT_NEAR(segment.words[w].probability, words[w].at("probability").get<double>(), 1e-4);
    }
  }
}

TEST(Transcribe, GivesTheTokensOfTransformers) {
  TranscribeOptions options = greedy();
  options.language = "en";
  expect_segments(fixture().transcribe(options), expected().at("transformers").at("conditioned"));
  options.condition_on_previous_text = false;
  expect_segments(fixture().transcribe(options), expected().at("transformers").at("english"));
  options.language = "french";
  options.translate = true;
  expect_segments(fixture().transcribe(options), expected().at("transformers").at("french"));
}

TEST(Transcribe, GivesTheSegmentsOfOpenAisWhisper) {
  TranscribeOptions options = greedy();
  expect_openai("detected", options);
  options.language = "en";
  expect_openai("english", options);
  options.prompt = " ab cd ";
  expect_openai("prompted", options);
  options.prompt.clear();
  options.condition_on_previous_text = false;
  expect_openai("unconditioned", options);
  options.condition_on_previous_text = true;
  options.timestamps = false;
  expect_openai("without_timestamps", options);
  options.timestamps = true;
  options.no_speech_threshold = 3e-5;
  options.log_probability_threshold = -0.75;
  expect_openai("silence", options);
  options = greedy();
  options.language = "FR";
  options.translate = true;
  expect_openai("french_translated", options);
}

TEST(Transcribe, GivesTheWordTimesOfOpenAisWhisper) {
  TranscribeOptions options = greedy();
  options.language = "en";
  options.word_times = true;
  expect_openai("words", options);
  options.language = "fr";
  options.condition_on_previous_text = false;
  expect_openai("words_french", options);
}

TEST(Transcribe, TriesHigherTemperaturesUntilATextPasses) {
  TranscribeOptions options = greedy();
  options.language = "en";
  options.temperatures = {0.0, 0.4, 1.0};
  options.log_probability_threshold = 0;  // nothing passes: the last one stays
  options.seed = 7;
  const Transcript last = fixture().transcribe(options);
  for (const TranscriptSegment& segment : last.segments) EXPECT_EQ(segment.temperature, 1.0);
  EXPECT_EQ(fixture().transcribe(options).text, last.text);
  options.log_probability_threshold = -100;  // everything passes
  for (const TranscriptSegment& segment : fixture().transcribe(options).segments)
    EXPECT_EQ(segment.temperature, 0.0);
  options.log_probability_threshold.reset();
  options.compression_ratio_threshold = 0;  // all text is more than its compressed form
  for (const TranscriptSegment& segment : fixture().transcribe(options).segments)
    EXPECT_EQ(segment.temperature, 1.0);
}

TEST(Transcribe, BeamsGiveTheTokensOfTransformers) {
  TranscribeOptions options = greedy();
  options.language = "en";
  options.condition_on_previous_text = false;
  options.num_beams = 3;
  expect_segments(fixture().transcribe(options), expected().at("transformers").at("beams"));
}

// The language, the first tokens of a window, all temperatures and the times of words read one cache.
TEST(Transcribe, KeysAndValuesMayBeRounded) {
  TranscribeOptions options = greedy();
  options.word_times = true;
  const Transcript exact = fixture().transcribe(options);
  for (const CacheDType dtype : {CacheDType::bf16, CacheDType::f16, CacheDType::int8}) {
    options.cache_dtype = dtype;
    const Transcript got = fixture().transcribe(options);
    EXPECT_EQ(got.language, exact.language);
    ASSERT_FALSE(got.segments.empty());
    const TranscriptSegment &one = got.segments.front(), &other = exact.segments.front();
    EXPECT_NE(one.average_log_probability, other.average_log_probability);
    EXPECT_NEAR(one.average_log_probability, other.average_log_probability, 0.05);
    EXPECT_EQ(one.words.empty(), other.words.empty());
  }
  options.temperatures = {0.0, 0.4};
  options.log_probability_threshold = 0;
  EXPECT_NO_THROW(fixture().transcribe(options));
}

TEST(Transcribe, GivesEverySegmentAtOnceAndProgress) {
  TranscribeOptions options = greedy();
  std::vector<double> ends, progress;
  std::string language;
  options.on_segment = [&](const TranscriptSegment& segment) {
    EXPECT_FALSE(language.empty());
    ends.push_back(segment.end);
  };
  options.on_language = [&](const std::string& detected) { language = detected; };
  options.on_progress = [&](double done, double seconds) {
    EXPECT_NEAR(seconds, 3.29, 1e-9);
    progress.push_back(done);
  };
  const Transcript got = fixture().transcribe(options);
  EXPECT_EQ(ends.size(), got.segments.size());
  EXPECT_EQ(language, got.language);
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_NEAR(progress.back(), got.seconds, 1e-9);
}

TEST(Transcribe, FeaturesGiveWhatTheirRecordingGives) {
  const SpeechFixture& f = fixture();
  const Tensor features = f.processor(load_sound(kSpeech / "tones.flac"), {.whole = true}).features;
  const Transcript got = transcribe_features(f.model, *f.tokenizer, f.settings, features, greedy());
  EXPECT_EQ(got.text, f.transcribe(greedy()).text);
  EXPECT_ERROR(transcribe_features(f.model, *f.tokenizer, f.settings, Tensor::zeros({1, 3, 50})),
               "transcribe: expected features [1, 80, frames], got f32[1, 3, 50]");
}

TEST(Transcribe, RefusesOptionsOutOfRange) {
  const auto error = [&](const TranscribeOptions& options) {
    return error_of([&] { fixture().transcribe(options); });
  };
  EXPECT_THAT(error({.temperatures = {}}), HasSubstr("temperatures: expected at least one"));
  EXPECT_THAT(error({.temperatures = {-1}}), HasSubstr("temperatures: expected 0 to 100"));
  EXPECT_THAT(error({.best_of = 0}), HasSubstr("best_of: expected at least 1, got 0"));
  EXPECT_THAT(error({.max_new_tokens = 0}), HasSubstr("max_new_tokens: expected at least 1"));
  EXPECT_THAT(error({.language = "germann"}), HasSubstr("language: expected a code or the English name"));
  SpeechFixture english;
  english.settings.languages.clear();
  EXPECT_ERROR(english.transcribe({.language = "en"}),
               "transcribe: language: expected none for a model of English only, got en");
  EXPECT_ERROR(english.transcribe({.translate = true}),
               "transcribe: translate: expected false for a model of English only, got true");
  EXPECT_EQ(english.transcribe(greedy()).language, "en");
}

// Text that was sampled above 0.5 is not read before the next window.
TEST(Transcribe, ForgetsTextOfHighTemperatures) {
  const auto tokens = [](double temperature, bool conditions) {
    TranscribeOptions options = greedy();
    options.temperatures = {temperature};
    options.best_of = 1;
    options.condition_on_previous_text = conditions;
    std::vector<std::int64_t> all;
    for (const TranscriptSegment& segment : fixture().transcribe(options).segments)
      all.insert(all.end(), segment.tokens.begin(), segment.tokens.end());
    return all;
  };
  EXPECT_EQ(tokens(0.6, true), tokens(0.6, false));
  EXPECT_NE(tokens(0.4, true), tokens(0.4, false));
}

TEST(Transcribe, RefusesTheProcessorOfAnotherModel) {
  const TemporaryFolder folder;
  write_file(folder / "preprocessor_config.json",
             R"({"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128})");
  SpeechFixture other;
  other.processor = load_sound_processor(folder.path());
  EXPECT_ERROR(other.transcribe({}),
               "transcribe: expected a spectrogram of 80 bins for this model, got 128 "
               "(preprocessor_config.json is another model's)");
}

TEST(Transcribe, CanBeCanceled) {
  std::atomic<bool> stop = true;
  TranscribeOptions options = greedy();
  options.stop = &stop;
  EXPECT_THROW(fixture().transcribe(options), Canceled);
}

TEST(TranscribeWindow, IsAWindowOfTheTranscript) {
  const SpeechFixture& f = fixture();
  const auto window = [&](double start, const TranscribeOptions& options) {
    return tasks::transcribe_window(f.model, *f.tokenizer, f.settings, f.processor,
                                    SoundReader(kSpeech / "tones.flac"), start, options);
  };
  TranscribeOptions options = greedy();
  options.language = "en";
  const tasks::SpeechWindow first = window(0, options);
  const Json& wanted = expected().at("openai").at("words").at("segments")[0].at("words");
  ASSERT_GE(first.words.size(), wanted.size());
  std::vector<std::int64_t> tokens;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(first.words[i].text, wanted[i].at("word"));
    EXPECT_NEAR(first.words[i].start, wanted[i].at("start").get<double>(), 1e-6);
    EXPECT_EQ(f.tokenizer->decode(first.words[i].tokens), first.words[i].text);
  }
  EXPECT_EQ(first.features.shape(), (Shape{1, 80, 100}));
  EXPECT_EQ(first.start.size(), 4u);
  EXPECT_EQ(first.start.back(), f.settings.no_timestamps);
  EXPECT_DOUBLE_EQ(first.seconds, 1);
  EXPECT_DOUBLE_EQ(window(1.5, options).offset, 1.5);
  EXPECT_ERROR(window(99, options), "expected a start before the end of the sound at");
  options.no_speech_threshold = 0;
  EXPECT_TRUE(window(0, options).words.empty());
}

}  // namespace
}  // namespace heed
