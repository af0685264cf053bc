// heed transcribe on the small Whisper of tests/fixtures/speech; tests/tasks/transcribe_test.cpp compares its
// transcripts with those of other programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"
#include "heed/error.h"

namespace heed::cli_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kModel = std::string(HEED_FIXTURES) + "/speech";
const std::string kTones = kModel + "/tones.flac";

Words command(const Words& more) {
  Words words{"transcribe", "--model", kModel, "--temperature", "0", "--logprob-threshold", "none"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json expected(const char* name) { return read_json(kModel + "/transcriptions.json").at("openai").at(name); }

std::string lines_of(const Json& transcript) {
  std::string lines;
  for (const Json& segment : transcript.at("segments")) {
    const std::string text = segment.at("text");
    lines += text.substr(text.find_first_not_of(' ')) + "\n";
  }
  return lines;
}

// A copy of the model with a changed generation_config.json.
struct ChangedModel {
  Folder folder;
  std::string path = folder.path().string();
  explicit ChangedModel(const Json& changes) {
    fs::copy(kModel, folder.path(), fs::copy_options::recursive);
    Json config = read_json(path + "/generation_config.json");
    config.merge_patch(changes);
    spill(path + "/generation_config.json", config.dump());
  }
};

TEST(TranscribeCommand, PrintsALineASegment) {
  EXPECT_EQ(output_of(command({kTones})), lines_of(expected("detected")));
  EXPECT_EQ(output_of(command({kTones, "--language", "English"})), lines_of(expected("english")));
  EXPECT_EQ(output_of(command({kTones, "--language", "fr", "--task", "translate"})),
            lines_of(expected("french_translated")));
  EXPECT_EQ(output_of(command({kTones, "--language", "en", "--prompt", "ab cd"})),
            lines_of(expected("prompted")));
  EXPECT_EQ(output_of(command({kTones, "--language", "en", "--no-condition-on-previous-text"})),
            lines_of(expected("unconditioned")));
  EXPECT_EQ(output_of(command({kTones, "--language", "en", "--no-timestamps"})),
            lines_of(expected("without_timestamps")));
}

TEST(TranscribeCommand, ReadsStdin) {
  const std::string sound = slurp(kTones);
  EXPECT_EQ(output_of(command({}), sound), lines_of(expected("detected")));
  EXPECT_EQ(output_of(command({"-"}), sound), lines_of(expected("detected")));
}

TEST(TranscribeCommand, WritesJsonAndSubtitles) {
  const Json got =
      json_lines(output_of(command({kTones, "--language", "en", "--word-timestamps", "--json"})))[0];
  const Json wanted = expected("words");
  EXPECT_EQ(got.at("file"), kTones);
  EXPECT_EQ(got.at("text"), wanted.at("text"));
  EXPECT_EQ(got.at("segments")[0].at("words")[0].at("word"),
            wanted.at("segments")[0].at("words")[0].at("word"));
  const std::string srt = output_of(command({kTones, "--language", "en", "--format", "srt"}));
  EXPECT_THAT(srt, testing::StartsWith("1\n00:00:00,200 --> 00:00:00,860\na\n\n2\n"));
  const std::string tsv = output_of(command({kTones, "--language", "en", "--format", "tsv"}));
  EXPECT_THAT(tsv, testing::StartsWith("start\tend\ttext\n200\t860\ta\n"));
}

TEST(TranscribeCommand, WritesAFileForEachSound) {
  const Folder folder;
  const std::string copy = (folder.path() / "copy.flac").string(), out = (folder.path() / "out").string();
  fs::copy(kTones, copy);
  EXPECT_THAT(output_of(command({kTones, copy, "--format", "vtt", "--output-dir", out})), IsEmpty());
  EXPECT_EQ(slurp(out + "/tones.vtt"), slurp(out + "/copy.vtt"));
  EXPECT_THAT(slurp(out + "/tones.vtt"), testing::StartsWith("WEBVTT\n\n00:00."));
  expect_error(2, command({kTones, kTones, "--output-dir", out}), "expected files with different names");
  expect_error(2, command({kTones, copy, "--format", "srt"}), "give a folder with --output-dir");
}

TEST(TranscribeCommand, ReportsBadFilesAndDoesTheOthers) {
  const Folder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  spill(file("empty.wav"), "");
  spill(file("notes.mp3"), "Dear all,");
  std::string damaged = slurp(kTones);
  damaged.replace(20'000, 8, "no frame");
  spill(file("damaged.flac"), damaged);
  fs::copy(kTones, file("good.flac"));
  const Result got = run(command(
      {file("empty.wav"), file("notes.mp3"), file("good.flac"), file("damaged.flac"), file("missing.wav")}));
  EXPECT_EQ(got.status, 1);
  for (const char* bad : {"empty.wav", "notes.mp3", "damaged.flac", "missing.wav"})
    EXPECT_THAT(got.err, HasSubstr("heed: error: " + file(bad) + ": ")) << bad;
  std::string lines;
  const Json wanted = expected("detected");
  for (const Json& segment : wanted.at("segments")) {
    const std::string text = segment.at("text");
    lines += file("good.flac") + "\t" + text.substr(text.find_first_not_of(' ')) + "\n";
  }
  EXPECT_EQ(got.out, lines);
  const std::vector<Json> json =
      json_lines(run(command({file("empty.wav"), file("good.flac"), "--format", "json"})).out);
  ASSERT_EQ(json.size(), 2u);
  EXPECT_THAT(json[0].at("error").get<std::string>(), HasSubstr("empty.wav"));
  EXPECT_EQ(json[1].at("text"), expected("detected").at("text"));
}

TEST(TranscribeCommand, ReadsWhatIsThereOfACutRecording) {
  const Folder folder;
  const std::string cut = (folder.path() / "cut.flac").string();
  spill(cut, slurp(kTones).substr(0, 20000));
  const Result got = run(command({cut}));
  EXPECT_EQ(got.status, 0);
  EXPECT_THAT(got.err, HasSubstr("heed: warning: " + cut + ": truncated after "));
  EXPECT_EQ(got.err.find("warning"), got.err.rfind("warning")) << "once, though Whisper reads twice";
  const Result quiet = run(command({cut, "--quiet"}));
  EXPECT_EQ(quiet.out, got.out);
  EXPECT_EQ(quiet.err, "");
}

TEST(TranscribeCommand, RefusesWhatTheModelCannot) {
  const std::string fixtures = HEED_FIXTURES;
  expect_error(1, {"transcribe", "--model", fixtures + "/bart", kTones},
               "cannot transcribe sound (use heed translate)");
  expect_error(1, {"translate", "--quiet", "--model", kModel, "text"},
               "cannot translate (use heed transcribe)");
  expect_error(2, command({kTones, "--language", "Frnch"}), "--language: expected a code");
  expect_error(2, {"transcribe", "--model", kModel, kTones, "--temperature", "0,hot"},
               "--temperature: expected numbers");
  expect_error(2, command({kTones, "--no-speech-threshold", "often"}),
               "expected a number or none, got often");
  const ChangedModel english(Json{{"is_multilingual", false}});
  expect_error(1, {"transcribe", "--model", english.path, kTones, "--task", "translate"},
               "expected neither --language nor --task for a model of English only, got --task translate");
  const ChangedModel bare(Json::object());
  fs::remove(bare.path + "/preprocessor_config.json");
  expect_error(1, {"transcribe", "--model", bare.path, kTones}, "preprocessor_config.json");
}

TEST(TranscribeCommand, TakesModelsOfSamples) {
  const std::string fixtures = HEED_FIXTURES, ctc = fixtures + "/ctc",
                    moonshine = fixtures + "/moonshine-speech";
  const Json wanted = read_json(ctc + "/transcriptions.json").at("runs")[1];
  const Json got = json_lines(output_of(
      {"transcribe", "--model", ctc, kTones, "--chunk-length-s", "1", "--word-timestamps", "--json"}))[0];
  EXPECT_EQ(got.at("text"), wanted.at("text"));
  EXPECT_EQ(got.at("segments")[0].at("words")[1].at("word"), wanted.at("words")[1].at("word"));
  EXPECT_FALSE(got.contains("language"));
  EXPECT_FALSE(got.at("segments")[0].contains("temperature"));
  EXPECT_THAT(output_of({"transcribe", "--model", ctc, kTones, "--format", "srt"}),
              testing::StartsWith("1\n00:00:00,040 --> 00:00:03,280\nOSAshOS O XSR"));
  EXPECT_EQ(output_of({"transcribe", "--model", moonshine, kTones, "--chunk-length-s", "1.5"}),
            "oakakkk\noaakkkkk\noa\n");
  const auto refused = [](const std::string& model, const Words& option) {
    Words words{"transcribe", "--model", model, kTones};
    words.insert(words.end(), option.begin(), option.end());
    expect_error(2, words, "heed: error: " + option[0] + ": expected none for a");
  };
  for (const Words& option :
       {Words{"--language", "fr"}, Words{"--task", "transcribe"}, Words{"--prompt", "ab"},
        Words{"--timestamps"}, Words{"--temperature", "0"}, Words{"--best-of", "2"},
        Words{"--compression-ratio-threshold", "none"}, Words{"--logprob-threshold", "none"},
        Words{"--no-speech-threshold", "none"}, Words{"--no-condition-on-previous-text"}}) {
    refused(ctc, option);
    refused(moonshine, option);
  }
  refused(moonshine, {"--word-timestamps"});  // without a warning that text has no times
  refused(moonshine, {"--stride-length-s", "1"});
  refused(ctc, {"--num-beams", "2"});
  refused(ctc, {"--max-new-tokens", "2"});
  refused(kModel, {"--chunk-length-s", "2"});
  refused(kModel, {"--stride-length-s", "1"});
  expect_error(2, {"transcribe", "--model", ctc, kTones, "--chunk-length-s", "700"},
               "--chunk-length-s: expected 0.1 to 600 s, got 700");
  expect_error(2, {"transcribe", "--model", ctc, kTones, "--stride-length-s", "15"},
               "--stride-length-s: expected 0 to less than half of the window of 30 s, got 15");
  expect_error(1, {"transcribe", "--model", fixtures + "/wav2vec2-model", kTones}, "cannot transcribe sound");
}

TEST(TranscribeCommand, ModelsAreScoredByErrorRates) {
  const std::string fixtures = HEED_FIXTURES, table = fixtures + "/spoken/ctc.csv";
  const Words words{"evaluate", "--model", fixtures + "/ctc", "--data", table};
  Words csv = words;
  csv.insert(csv.end(), {"--set", "data.format=csv"});
  EXPECT_THAT(output_of(csv), testing::ContainsRegex("^loss = [0-9.]+  wer = [0-9.]+  cer = [0-9.]+\n$"));
  csv.emplace_back("--json");
  EXPECT_GT(json_lines(output_of(csv))[0].at("wer").get<double>(), 50);
  expect_error(1, words, "expected a folder with metadata.csv or metadata.jsonl, got a file");
  expect_error(2, {"evaluate", "--model", fixtures + "/ctc", "--tsv", table, "--columns", "text,label"},
               "--columns: expected none for recordings");
  expect_error(1, {"evaluate", "--model", fixtures + "/speech", "--data", table, "--set", "data.format=csv"},
               "task.language: not set");
}

TEST(TranscribeCommand, SamplesTheSameTextForTheSameSeed) {
  const Words words{"transcribe", "--model", kModel, kTones, "--temperature", "0.8", "--language", "en"};
  const auto with_seed = [&](const char* seed) {
    Words all = words;
    all.insert(all.end(), {"--seed", seed});
    return output_of(all);
  };
  EXPECT_EQ(with_seed("1"), with_seed("1"));
  EXPECT_NE(with_seed("1"), with_seed("2"));
}

}  // namespace
}  // namespace heed::cli_test
