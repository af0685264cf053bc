// Compares transcripts of a CTC head with those of transformers' pipeline (tests/fixtures/ctc.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/models/model.h"
#include "heed/models/registry.h"
#include "heed/sound/processor.h"
#include "heed/tasks/transcribe.h"
#include "heed/text/tokenizer.h"
#include "reference/error.h"
#include "reference/json.h"
#include "tasks/speech_fixture.h"

namespace heed {
namespace {

const std::filesystem::path kCtc = std::filesystem::path(HEED_FIXTURES) / "ctc";

struct CtcFixture {
  std::unique_ptr<Model> model = load_model(kCtc);
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(kCtc);
  Transcriber transcriber{*model, *tokenizer, kCtc.string()};

  Transcript operator()(const TranscribeOptions& options = {}) const {
    return transcriber(SoundReader(kSpeech / "tones.flac"), options);
  }
};

const nlohmann::json& runs() {
  static const nlohmann::json all = read_json((kCtc / "transcriptions.json").string()).at("runs");
  return all;
}

TEST(TranscribeCtc, GivesTheTextAndTimesOfTransformers) {
  const CtcFixture fixture;
  ASSERT_EQ(runs().size(), 4u);
  for (const auto& run : runs()) {
    SCOPED_TRACE(run.at("chunk").dump());
    TranscribeOptions options{.word_times = true};
    if (run.at("chunk") != 0) options.window_seconds = run.at("chunk").get<double>();
    if (run.at("stride").is_number()) options.stride_seconds = run.at("stride").get<double>();
    const Transcript got = fixture(options);
    EXPECT_EQ(got.text, run.at("text"));
    EXPECT_NEAR(got.seconds, 52'777 / 16e3, 1e-9);
    std::vector<TranscribedWord> words;
    for (const TranscriptSegment& segment : got.segments)
      words.insert(words.end(), segment.words.begin(), segment.words.end());
    ASSERT_EQ(words.size(), run.at("words").size());
    for (std::size_t i = 0; i < words.size(); ++i) {
      EXPECT_EQ(words[i].text, run.at("words")[i].at("word"));
      EXPECT_NEAR(words[i].start, run.at("words")[i].at("start").get<double>(), 1e-9);
      EXPECT_NEAR(words[i].end, run.at("words")[i].at("end").get<double>(), 1e-9);
      EXPECT_GT(words[i].probability, 0.0);
      EXPECT_LE(words[i].probability, 1.0);
    }
  }
}

TEST(TranscribeCtc, SegmentsHaveTheTokensOfTheirFrames) {
  const auto& run = runs()[0];
  std::vector<std::int64_t> tokens;  // those of transformers, each once, without blanks
  std::int64_t before = -1;
  for (const std::int64_t id : run.at("frames").get<std::vector<std::int64_t>>()) {
    if (id != before && id != 0) tokens.push_back(id);
    before = id;
  }
  while (tokens.front() == 4) tokens.erase(tokens.begin());
  while (tokens.back() == 4) tokens.pop_back();
  std::vector<TranscriptSegment> called;
  TranscribeOptions options;
  options.on_segment = [&](const TranscriptSegment& segment) { called.push_back(segment); };
  double progress = 0;
  options.on_progress = [&](double done, double) { progress = done; };
  const Transcript got = CtcFixture()(options);
  ASSERT_EQ(got.segments.size(), 1u);  // 3.3 s without a pause
  EXPECT_EQ(called.size(), 1u);
  EXPECT_NEAR(progress, got.seconds, 1e-9);
  const TranscriptSegment& segment = got.segments.front();
  EXPECT_EQ(segment.tokens, tokens);
  EXPECT_EQ(segment.text, run.at("text"));
  EXPECT_TRUE(segment.words.empty());
  EXPECT_FALSE(segment.temperature || segment.compression_ratio || segment.no_speech_probability);
  EXPECT_NEAR(segment.average_log_probability, run.at("average_log_probability").get<double>(), 0.02);
  EXPECT_EQ(got.language, "");
}

TEST(TranscribeCtc, RefusesWhatItDoesNotHave) {
  const CtcFixture fixture;
  EXPECT_ERROR(fixture.transcriber.check({.language = "fr"}),
               "transcribe: language: expected none for a wav2vec2 model, which has one language");
  EXPECT_ERROR(fixture.transcriber.check({.translate = true}), "translate: expected none");
  EXPECT_ERROR(fixture.transcriber.check({.timestamps = false}), "timestamps: expected none");
  EXPECT_ERROR(fixture.transcriber.check({.prompt = "a"}), "prompt: expected none");
  EXPECT_ERROR(fixture.transcriber.check({.temperatures = {0.0}}), "temperature");
  EXPECT_ERROR(fixture.transcriber.check({.num_beams = 2}), "num_beams: expected none");
  EXPECT_ERROR(fixture.transcriber.check({.max_new_tokens = 2}), "max_new_tokens: expected none");
  EXPECT_ERROR(
      fixture.transcriber.check({.cache_dtype = CacheDType::int8}),
      "transcribe: cache_dtype: expected none for a wav2vec2 model, which remembers no keys and values");
  EXPECT_ERROR(fixture.transcriber.check({.no_speech_threshold = 0.5}), "no_speech_threshold: expected none");
  EXPECT_ERROR(fixture.transcriber.check({.window_seconds = 0}), "window_seconds: expected 0.1 to 600 s");
  EXPECT_ERROR(fixture.transcriber.check({.window_seconds = 2, .stride_seconds = 1}),
               "stride_seconds: expected 0 to less than half of the window");
  const SpeechFixture whisper;
  EXPECT_ERROR(whisper.transcribe({.window_seconds = 2}), "window_seconds: expected none for a Whisper");
}

TEST(TranscribeCtc, NamesTheRecordingThatIsTooShort) {
  const CtcFixture fixture;
  const std::string bytes = read_file(kSpeech / "tones.flac", 1 << 20);
  EXPECT_ERROR(fixture.transcriber(SoundReader(bytes, "talk", {.rate = 8000})),
               "expected a reader of 16000 samples a second, got 8000");
  std::string wav = "RIFF....WAVEfmt ";
  wav.replace(4, 4, std::string("\x2c\0\0\0", 4));
  wav +=
      std::string("\x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\x08\0\0\0", 28) + "abcdefgh";
  EXPECT_ERROR(fixture.transcriber(SoundReader(wav, "short.wav")),
               "short.wav: expected a sound of at least 586 samples, got 4");
}

TEST(TranscribeCtc, CanBeCanceled) {
  const std::atomic<bool> stop = true;
  EXPECT_THROW(CtcFixture()({.stop = &stop}), Canceled);
}

}  // namespace
}  // namespace heed
