// Recordings in forms: equal to transcribe(), in every form of answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/strings.h"
#include "heed/files/file.h"
#include "heed/sound/sound.h"
#include "reference/temporary_folder.h"
#include "serve/asking.h"

namespace heed::serve_test {
namespace {

using testing::HasSubstr;

const std::string kTones = std::string(HEED_FIXTURES) + "/speech/tones.flac";

std::vector<serve::ServedModel> with_speech() {
  std::vector<serve::ServedModel> models;
  models.push_back(served("encoders/bert-mlm"));
  models.push_back(served("speech"));
  models.push_back(served("ctc"));
  models.push_back(served("moonshine-speech"));
  return models;
}

server::HttpRequest form_of(const std::string& path,
                            const std::vector<std::pair<std::string, std::string>>& fields,
                            const std::string& sound) {
  std::string body;
  for (const auto& [name, text] : fields)
    body += "--xyz\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + text + "\r\n";
  if (!sound.empty())
    body += "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.flac\"\r\n\r\n" + sound +
            "\r\n";
  server::HttpRequest request = request_of("POST", path, body + "--xyz--\r\n");
  request.content_type = "multipart/form-data; boundary=xyz";
  return request;
}

Transcript expected_transcript(const serve::ServedModel& model, const TranscribeOptions& options) {
  return model.opened.transcriber()(SoundReader(std::filesystem::path(kTones), {.rate = 16'000}), options);
}

TEST(Speech, EqualsTranscribeInEveryForm) {
  const serve::ServedModel model = served("speech");
  TranscribeOptions options;
  options.language = "fr";
  options.word_times = true;
  const Transcript words = expected_transcript(model, options);
  options.word_times = false;
  const Transcript expected = expected_transcript(model, options);
  ASSERT_GT(expected.segments.size(), 2u);
  Asking server(with_speech());
  const auto ask = [&](std::vector<std::pair<std::string, std::string>> fields) {
    fields.emplace_back("language", "French");
    return server.ask(form_of("/v1/audio/transcriptions", fields, read_file(kTones)));
  };
  const std::string text(trimmed(expected.text));
  const Answer json = ask({{"model", "speech"}});
  ASSERT_EQ(json.status, 200) << json.text;
  EXPECT_EQ(json.json["text"], text);
  EXPECT_NEAR(json.json["usage"]["seconds"].get<double>(), expected.seconds, 1e-9);
  EXPECT_EQ(ask({{"response_format", "text"}}).text, text + "\n");
  EXPECT_EQ(ask({{"response_format", "srt"}}).text, written(expected, TranscriptForm::srt));
  EXPECT_EQ(ask({{"response_format", "vtt"}, {"temperature", "0"}}).text,
            written(expected, TranscriptForm::vtt));

  const Json verbose = ask({{"response_format", "verbose_json"}}).json;
  EXPECT_EQ(verbose["task"], "transcribe");
  EXPECT_EQ(verbose["language"], "french");
  EXPECT_FALSE(verbose.contains("words"));
  ASSERT_EQ(verbose["segments"].size(), expected.segments.size());
  EXPECT_EQ(verbose["segments"][1]["tokens"].get<std::vector<std::int64_t>>(), expected.segments[1].tokens);
  EXPECT_EQ(verbose["segments"][1]["start"].get<double>(), expected.segments[1].start);

  const Json timed = ask({{"response_format", "verbose_json"}, {"timestamp_granularities[]", "word"}}).json;
  EXPECT_FALSE(timed.contains("segments"));
  std::vector<double> ends;
  for (const TranscriptSegment& segment : words.segments) {
    for (const TranscribedWord& word : segment.words) ends.push_back(word.end);
  }
  ASSERT_EQ(timed["words"].size(), ends.size());
  EXPECT_EQ(timed["words"].back()["end"].get<double>(), ends.back());
}

TEST(Speech, TranslatesAndHasSeveralAtOnce) {
  const serve::ServedModel model = served("speech");
  TranscribeOptions options;
  options.translate = true;
  const std::string translated(trimmed(expected_transcript(model, options).text));
  Asking server(with_speech());
  std::vector<std::shared_ptr<Received>> waiting;
  for (int i = 0; i < 6; ++i)
    waiting.push_back(
        server.begin(form_of("/v1/audio/translations", {{"model", "speech"}}, read_file(kTones))));
  const Answer vectors = server.post("/embed", {{"inputs", "a"}});
  EXPECT_EQ(vectors.status, 200) << vectors.text;
  for (const auto& one : waiting) {
    ASSERT_EQ(one->response().status, 200) << one->response().body;
    EXPECT_EQ(parse_json(one->response().body, "answer")["text"], translated);
  }
}

TEST(Speech, OfModelsOfSamplesAsWell) {
  Asking server(with_speech());
  for (const char* name : {"ctc", "moonshine-speech"}) {
    const serve::ServedModel model = served(name);
    const Transcript expected = expected_transcript(model, {});
    const auto ask = [&](const char* form) {
      return server.ask(form_of("/v1/audio/transcriptions", {{"model", name}, {"response_format", form}},
                                read_file(kTones)));
    };
    EXPECT_FALSE(trimmed(expected.text).empty());
    EXPECT_EQ(ask("text").text, std::string(trimmed(expected.text)) + "\n");
    EXPECT_EQ(ask("srt").text, written(expected, TranscriptForm::srt));
    const Answer verbose = ask("verbose_json");
    ASSERT_EQ(verbose.status, 200) << verbose.text;
    EXPECT_EQ(verbose.json["language"], "");
    ASSERT_EQ(verbose.json["segments"].size(), expected.segments.size());
    for (std::size_t i = 0; i < expected.segments.size(); ++i) {
      EXPECT_EQ(verbose.json["segments"][i]["text"], expected.segments[i].text);
      EXPECT_EQ(verbose.json["segments"][i]["end"].get<double>(), expected.segments[i].end);
    }
  }
}

TEST(Speech, ComesInPieces) {
  Asking server(with_speech());
  for (const char* name : {"speech", "ctc", "moonshine-speech"}) {
    SCOPED_TRACE(name);
    const Transcript expected = expected_transcript(served(name), {});
    const Answer answer = server.ask(
        form_of("/v1/audio/transcriptions", {{"model", name}, {"stream", "true"}}, read_file(kTones)));
    ASSERT_EQ(answer.status, 200) << answer.text;
    std::vector<Json> events = answer.events();
    ASSERT_FALSE(events.empty());
    const Json last = events.back();
    events.pop_back();
    EXPECT_LE(events.size(), expected.segments.size());
    EXPECT_GE(events.size(), std::min<std::size_t>(expected.segments.size(), 2));
    std::string text;
    for (const Json& event : events) {
      EXPECT_EQ(event["type"], "transcript.text.delta");
      text += event["delta"].get<std::string>();
    }
    EXPECT_EQ(text, trimmed(expected.text));
    EXPECT_EQ(last["type"], "transcript.text.done");
    EXPECT_EQ(last["text"], text);
    EXPECT_EQ(last["usage"]["seconds"].get<double>(), expected.seconds);
  }
  const Answer whole = server.ask(
      form_of("/v1/audio/transcriptions", {{"model", "ctc"}, {"stream", "false"}}, read_file(kTones)));
  EXPECT_TRUE(whole.json.contains("text")) << whole.text;
  const Answer none =
      server.ask(form_of("/v1/audio/transcriptions", {{"model", "speech"}, {"stream", "true"}}, "no sound"));
  EXPECT_EQ(none.status, 400) << none.text;  // no event has begun
}

TEST(Speech, EnglishOnlyModelsDoNotTranslate) {
  const TemporaryFolder folder;
  for (const auto& file : std::filesystem::directory_iterator(std::string(HEED_FIXTURES) + "/speech"))
    std::filesystem::copy_file(file.path(), folder.path() / file.path().filename());
  Json generation = parse_json(read_file(folder.path() / "generation_config.json"), "generation_config.json");
  for (const char* key : {"lang_to_id", "task_to_id"}) generation.erase(key);
  generation["is_multilingual"] = false;
  std::ofstream(folder.path() / "generation_config.json") << generation;
  std::vector<serve::ServedModel> models;
  models.push_back(serve::serve_model("english", load(folder.path().string())));
  Asking server(std::move(models));
  const Answer answer = server.ask(form_of("/v1/audio/translations", {}, read_file(kTones)));
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.text, HasSubstr("request: model: expected a multilingual Whisper, which translates, got "
                                     "an English-only Whisper"));
}

TEST(Speech, WhoLeavesIsNotComputedFor) {
  Asking server(with_speech());
  const auto left =
      server.begin(form_of("/v1/audio/transcriptions", {{"model", "speech"}}, read_file(kTones)));
  left->leave();
  EXPECT_NE(left->response().status, 0);
}

TEST(Speech, WrongRequestsAreRefused) {
  Asking server(with_speech());
  struct Case {
    std::vector<std::pair<std::string, std::string>> fields;
    int status;
    const char* told;
  };
  const std::string sound = read_file(kTones);
  for (const Case& one : std::vector<Case>{
           {{{"model", "other"}}, 404, "not found (see /v1/models)"},
           {{{"model", "bert-mlm"}}, 400, "transcribes speech"},
           {{{"response_format", "xml"}}, 400, "response_format"},
           {{{"temperature", "warm"}}, 400, "temperature"},
           {{{"temperature", "2"}}, 400, "temperature"},
           {{{"language", "Frensh"}}, 400, "did you mean french"},
           {{{"timestamp_granularities[]", "word"}}, 400, "verbose_json"},
           {{{"timestamp_granularities", "a"}, {"timestamp_granularities[]", "b"}}, 400, "segment and word"},
           {{{"model", "ctc"}, {"language", "en"}}, 400, "language"},
           {{{"model", "moonshine-speech"}, {"language", "en"}}, 400, "language"},
           {{{"model", "moonshine-speech"}, {"prompt", "a"}}, 400, "prompt"},
           {{{"stream", "maybe"}}, 400, "stream"},
           {{{"stream", "true"}, {"response_format", "srt"}}, 400, "json or text with stream"},
           {{{"model", "\xff"}}, 404, "not found"}}) {
    const Answer answer = server.ask(form_of("/v1/audio/transcriptions", one.fields, sound));
    EXPECT_EQ(answer.status, one.status) << answer.text;
    EXPECT_THAT(answer.text, HasSubstr(one.told));
  }
  const Answer english = server.ask(form_of("/v1/audio/translations", {{"model", "ctc"}}, sound));
  EXPECT_EQ(english.status, 400);
  EXPECT_THAT(english.text, HasSubstr("model: expected a multilingual Whisper, which translates"));
  const Answer none = server.ask(form_of("/v1/audio/transcriptions", {{"file", "name"}}, ""));
  EXPECT_EQ(none.status, 400);
  EXPECT_THAT(none.text, HasSubstr("a recording with a file name"));
  const Answer text = server.ask(form_of("/v1/audio/transcriptions", {{"model", "speech"}}, "no sound"));
  EXPECT_EQ(text.status, 400) << text.text;
  EXPECT_THAT(text.text, HasSubstr("file"));
  EXPECT_THAT(server.post("/v1/audio/transcriptions", Json::object()).text, HasSubstr("multipart/form-data"));
  EXPECT_EQ(server.post("/tokenize", {{"model", "speech"}, {"inputs", "a"}}).status, 424);
}

}  // namespace
}  // namespace heed::serve_test
