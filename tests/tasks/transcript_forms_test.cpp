// The forms of transcripts, as OpenAI's whisper writes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "heed/tasks/transcribe.h"

namespace heed {
namespace {

Transcript example() {
  TranscriptSegment first{.start = 0, .end = 1.5, .text = " Hello\tthere.", .tokens = {7, 8}};
  TranscriptSegment second{.start = 1.5, .end = 3725.0375, .text = " a --> b ", .tokens = {9}};
  second.temperature = second.compression_ratio = second.no_speech_probability = 0.25;
  second.words = {{" a", 1.5, 2, 0.5}};
  return {" Hello\tthere. a --> b ", "en", 3726, {first, second}};
}

TEST(TranscriptForms, AreThoseOfWhisper) {
  EXPECT_EQ(written(example(), TranscriptForm::text), "Hello there.\na --> b\n");
  EXPECT_EQ(written(example(), TranscriptForm::srt),
            "1\n00:00:00,000 --> 00:00:01,500\nHello there.\n\n"
            "2\n00:00:01,500 --> 01:02:05,038\na -> b\n\n");
  EXPECT_EQ(written(example(), TranscriptForm::vtt),
            "WEBVTT\n\n00:00.000 --> 00:01.500\nHello there.\n\n"
            "00:01.500 --> 01:02:05.038\na -> b\n\n");
  EXPECT_EQ(written(example(), TranscriptForm::tsv),
            "start\tend\ttext\n0\t1500\tHello there.\n1500\t3725038\ta --> b\n");
}

TEST(TranscriptForms, JsonHasTheNamesOfWhisper) {
  const auto json = nlohmann::json::parse(written(example(), TranscriptForm::json, "a.mp3"));
  EXPECT_EQ(json.at("file"), "a.mp3");
  EXPECT_EQ(json.at("language"), "en");
  EXPECT_EQ(json.at("duration"), 3726);
  EXPECT_EQ(json.at("text"), " Hello\tthere. a --> b ");
  const auto& second = json.at("segments").at(1);
  for (const char* name : {"temperature", "avg_logprob", "compression_ratio", "no_speech_prob"})
    EXPECT_TRUE(second.at(name).is_number()) << name;
  for (const char* name : {"temperature", "compression_ratio", "no_speech_prob"})
    EXPECT_FALSE(json.at("segments").at(0).contains(name)) << name;
  EXPECT_EQ(second.at("id"), 1);
  EXPECT_EQ(second.at("tokens"), nlohmann::json({9}));
  EXPECT_EQ(second.at("words").at(0).at("word"), " a");
  EXPECT_EQ(second.at("words").at(0).at("probability"), 0.5);
  const auto empty = nlohmann::json::parse(written({}, TranscriptForm::json));
  EXPECT_FALSE(empty.contains("file"));
  EXPECT_FALSE(empty.contains("language"));
}

}  // namespace
}  // namespace heed
