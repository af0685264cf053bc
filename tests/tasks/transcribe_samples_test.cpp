// Compares transcripts of a Moonshine with those of generate() in transformers
// (tests/fixtures/moonshine_speech.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

const std::filesystem::path kMoonshine = std::filesystem::path(HEED_FIXTURES) / "moonshine-speech";

struct MoonshineFixture {
  std::unique_ptr<Model> model = load_model(kMoonshine);
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(kMoonshine);
  Transcriber transcriber{*model, *tokenizer, kMoonshine.string()};

  Transcript operator()(const TranscribeOptions& options = {}) const {
    return transcriber(SoundReader(kSpeech / "tones.flac"), options);
  }
};

void expect_run(const Transcript& got, const char* name) {
  SCOPED_TRACE(name);
  static const nlohmann::json runs = read_json((kMoonshine / "transcriptions.json").string()).at("runs");
  const nlohmann::json& wanted = runs.at(name);
  ASSERT_EQ(got.segments.size(), wanted.size());
  std::string all;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const TranscriptSegment& segment = got.segments[i];
    EXPECT_EQ(segment.tokens, wanted[i].at("tokens").get<std::vector<std::int64_t>>());
    EXPECT_EQ(segment.text, wanted[i].at("text"));
    EXPECT_NEAR(segment.start, wanted[i].at("begin").get<double>() / 16'000, 1e-9);
    EXPECT_NEAR(segment.end, wanted[i].at("end").get<double>() / 16'000, 1e-9);
    EXPECT_LT(segment.average_log_probability, 0);
    all += (i > 0 ? " " : "") + segment.text;
  }
  EXPECT_EQ(got.text, all);
}

TEST(TranscribeSamples, GivesTheTokensOfTransformers) {
  const MoonshineFixture fixture;
  expect_run(fixture(), "whole");
  expect_run(fixture({.num_beams = 3}), "beams");
  expect_run(fixture({.window_seconds = 1.5}), "windows");
  expect_run(fixture({.cache_dtype = CacheDType::f16}), "whole");
}

TEST(TranscribeSamples, HasAsManyTokensAsAsked) {
  const Transcript got = MoonshineFixture()({.max_new_tokens = 3});
  ASSERT_EQ(got.segments.size(), 1u);
  EXPECT_EQ(got.segments[0].tokens, (std::vector<std::int64_t>{17, 29, 39}));
  EXPECT_NEAR(got.seconds, 52'777 / 16e3, 1e-9);
}

TEST(TranscribeSamples, RefusesWhatItDoesNotHave) {
  const MoonshineFixture fixture;
  const Transcriber& one = fixture.transcriber;
  EXPECT_ERROR(one.check({.language = "fr"}),
               "transcribe: language: expected none for a moonshine model, which has one language");
  EXPECT_ERROR(one.check({.translate = false}), "translate: expected none");
  EXPECT_ERROR(one.check({.timestamps = true}), "timestamps: expected none for a moonshine model");
  EXPECT_ERROR(one.check({.word_times = true}), "word_times: expected none");
  EXPECT_ERROR(one.check({.stride_seconds = 1}), "stride_seconds: expected none");
  EXPECT_ERROR(one.check({.max_new_tokens = 0}), "max_new_tokens: expected at least 1");
  EXPECT_ERROR(one(SoundReader(kSpeech / "tones.flac", {.rate = 8000})),
               "expected a reader of 16000 samples a second");
}

}  // namespace
}  // namespace heed
