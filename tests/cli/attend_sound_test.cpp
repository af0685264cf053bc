// heed attend on recordings: words along time with a small Whisper, frames and patches of encoders of sound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "command.h"

namespace heed::cli_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kSpeechModel = std::string(HEED_FIXTURES) + "/speech";
const std::string kRecording = kSpeechModel + "/tones.flac";

Words attend_to(const std::string& model, const std::string& file, const Words& more = {}) {
  Words words{"attend", "--model", model, file};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// An encoder with the settings of its processor.
struct Hearing {
  Folder folder;
  std::string path;
  Hearing(const std::string& fixture, const std::string& processor) {
    fs::copy(std::string(HEED_FIXTURES "/") + fixture, folder.path(), fs::copy_options::recursive);
    path = folder.path().string();
    spill(path + "/preprocessor_config.json", processor);
  }
};

// Moonshine's words have no times; its weights are those of transformers
// (tests/fixtures/moonshine_speech.py).
TEST(AttendSpeech, WordsOfMoonshineLieAlongItsFrames) {
  const std::string model = std::string(HEED_FIXTURES) + "/moonshine-speech";
  const Json wanted = read_json(model + "/transcriptions.json").at("attentions");
  const Json picture = Json::parse(output_of(attend_to(
      model, kRecording, {"--json", "--quiet", "--heads", "all", "--kind", "cross", "--start", "2.3"})));
  const Json& cross = wanted.at("cross");
  ASSERT_EQ(picture.at("maps").size(), 4u);  // of 2 layers and 2 heads
  for (const Json& map : picture.at("maps")) {
    const Json& rows = cross[map.at("layer").get<std::size_t>()][map.at("head").get<std::size_t>()];
    ASSERT_EQ(map.at("weights").size(), rows.size());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      ASSERT_EQ(map.at("weights")[row].size(), rows[row].size());
      for (std::size_t key = 0; key < rows[row].size(); ++key)
        EXPECT_NEAR(map.at("weights")[row][key], rows[row][key], 1e-5);
    }
  }
  const Json& sound = picture.at("sound");
  EXPECT_NEAR(sound.at("start"), 2.3, 1e-6);
  EXPECT_NEAR(sound.at("seconds"), 15'977 / 16e3, 1e-6);
  const Json text = json_lines(output_of({"transcribe", "--model", model, "--json", kRecording}))[0];
  std::string words;
  for (const Json& word : sound.at("words")) {
    words += word.at("text").get<std::string>();
    EXPECT_TRUE(word.at("start").is_null() && word.at("end").is_null());
  }
  EXPECT_EQ(words, "oakak");
  EXPECT_THAT(text.at("text").get<std::string>(), StartsWith("oa"));
}

TEST(AttendSpeech, FiguresOfMoonshineHaveARowForEachWord) {
  const std::string model = std::string(HEED_FIXTURES) + "/moonshine-speech";
  const Result shown = run(attend_to(model, kRecording, {"--start", "2.3"}));
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("cross-attention, layer 1, mean of heads"));
  EXPECT_THAT(shown.out, HasSubstr("oakak "));
  EXPECT_THAT(shown.out, testing::Not(HasSubstr("when the word was spoken")));
  EXPECT_THAT(shown.err, HasSubstr("shown are 2.3 s to 3.30 s"));
  const Folder folder;
  for (const char* name : {"a.svg", "a.png", "a.html"}) {
    output_of(attend_to(model, kRecording, {"--quiet", "--output", folder / name}));
    EXPECT_TRUE(fs::exists(folder / name));
  }
  EXPECT_THAT(slurp(folder / "a.html"), HasSubstr("\"start\":null"));
  expect_error(2, attend_to(model, kRecording, {"--heads", "alignment"}),
               "--heads: expected alignment only for a Whisper");
  expect_error(1, attend_to(model, kRecording, {"--start", "9"}),
               "expected a start before the end of the sound at 3.30 s, got 9 s");
  expect_error(1, attend_to(model, kRecording, {"--start", "3.295"}), "expected at least ");
}

TEST(AttendSpeech, WordsAreThoseOfTheTranscript) {
  const Json picture = Json::parse(output_of(attend_to(kSpeechModel, kRecording, {"--json", "--quiet"})));
  const Json transcript = Json::parse(output_of(
      {"transcribe", "--model", kSpeechModel, "--word-timestamps", "--json", "--quiet", kRecording}));
  const Json& sound = picture.at("sound");
  EXPECT_EQ(sound.at("start"), 0);
  EXPECT_EQ(sound.at("seconds"), 1);  // a window
  std::vector<Json> words;
  for (const Json& segment : transcript.at("segments"))
    for (const Json& word : segment.at("words")) words.push_back(word);
  const Json& own = sound.at("words");
  ASSERT_GE(own.size(), 1u);
  ASSERT_GE(words.size(), own.size());
  const Json& produced = picture.at("tokens").at("cross").at("queries");
  std::int64_t next = own[0].at("queries")[0];
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(own[i].at("text"), words[i].at("word"));
    EXPECT_EQ(own[i].at("start"), words[i].at("start"));
    EXPECT_EQ(own[i].at("end"), words[i].at("end"));
    EXPECT_EQ(own[i].at("queries")[0], next);
    next = own[i].at("queries")[1];
  }
  EXPECT_EQ(next + 1, static_cast<std::int64_t>(produced.size()));  // the end token
}

TEST(AttendSpeech, WeightsAreThoseOfTheModel) {
  const Json picture =
      Json::parse(output_of(attend_to(kSpeechModel, kRecording, {"--json", "--quiet", "--heads", "all"})));
  const Json alignment = Json::parse(
      output_of(attend_to(kSpeechModel, kRecording, {"--json", "--quiet", "--heads", "alignment"})));
  const Json heads =
      read_json(kSpeechModel + "/generation_config.json").value("alignment_heads", Json::array());
  ASSERT_FALSE(heads.empty());
  ASSERT_EQ(alignment.at("maps").size(), 1u);
  const Json& mean = alignment.at("maps")[0].at("weights");
  for (std::size_t query = 0; query < mean.size(); ++query) {
    double row = 0;
    for (std::size_t key = 0; key < mean[query].size(); ++key) {
      double sum = 0;
      for (const Json& map : picture.at("maps"))
        for (const Json& head : heads)
          if (map.at("layer") == head[0] && map.at("head") == head[1])
            sum += map.at("weights")[query][key].get<double>();
      ASSERT_NEAR(mean[query][key], sum / static_cast<double>(heads.size()), 1e-6);
      row += mean[query][key].get<double>();
    }
    EXPECT_NEAR(row, 1, 1e-5);
  }
}

TEST(AttendSpeech, EveryFormIsWritten) {
  const Result terminal = run(attend_to(kSpeechModel, kRecording));
  EXPECT_EQ(terminal.status, 0);
  EXPECT_THAT(terminal.out, StartsWith("tones.flac → "));
  EXPECT_THAT(terminal.out, HasSubstr("cross-attention, mean of the alignment heads\n"));
  EXPECT_THAT(terminal.out, HasSubstr("[ ]: when the word was spoken"));
  EXPECT_THAT(terminal.err,
              HasSubstr("tones.flac: shown are 0 s to 1.00 s (--start SECONDS shows another part)"));
  const Folder folder;
  for (const char* name : {"a.svg", "a.png", "a.html", "a.npy", "a.json"}) {
    const std::string file = folder / name;
    EXPECT_EQ(run(attend_to(kSpeechModel, kRecording, {"--output", file, "--quiet"})).status, 0) << name;
    EXPECT_TRUE(fs::exists(file)) << name;
  }
  EXPECT_THAT(slurp(folder / "a.html"), HasSubstr("\"sound\":{\"seconds\":1.0"));
  const Result later = run(attend_to(kSpeechModel, kRecording, {"--start", "1", "--json"}));
  EXPECT_EQ(Json::parse(later.out).at("sound").at("start"), 1);
  const Result encoder =
      run(attend_to(kSpeechModel, kRecording, {"--kind", "encoder", "--time", "0.5", "--quiet"}));
  EXPECT_THAT(encoder.out, HasSubstr("what the frame at 0.5 s attends to")) << encoder.err;
}

TEST(AttendSound, FramesAndPatchesLieOverTheSpectrogram) {
  const Hearing frames("wav2vec2-model", R"({"feature_extractor_type": "Wav2Vec2FeatureExtractor"})");
  const std::string speech = HEED_FIXTURES "/sound/speech.wav";
  const Result wave = run(attend_to(frames.path, speech, {"--show", "rollout"}));
  EXPECT_EQ(wave.status, 0) << wave.err;
  EXPECT_THAT(wave.out, HasSubstr("speech.wav: what all frames attend to, on average"));
  EXPECT_EQ(run(attend_to(frames.path, speech, {"--patch", "0,1"})).status, 2);
  const Json config = read_json(HEED_FIXTURES "/audio-spectrogram-model/config.json");
  const Json processor{{"feature_extractor_type", "ASTFeatureExtractor"},
                       {"num_mel_bins", config.at("num_mel_bins")},
                       {"max_length", config.at("max_length")}};
  const Hearing patches("audio-spectrogram-model", processor.dump());
  const Result grid = run(attend_to(patches.path, kRecording));
  EXPECT_EQ(grid.status, 0) << grid.err;
  EXPECT_THAT(grid.out, HasSubstr("tones.flac: what the class token attends to"));
  const Json whole = Json::parse(output_of(attend_to(patches.path, kRecording, {"--json", "--quiet"})));
  EXPECT_EQ(whole.at("tokens").at("encoder").at("keys")[1], "[DIST]");
  EXPECT_EQ(whole.at("tokens").at("encoder").at("keys")[2], "0.00 s, 0");
  EXPECT_EQ(run(attend_to(patches.path, kRecording, {"--time", "0.1"})).status, 2);
}

TEST(AttendSound, ErrorsAreOneLine) {
  const Folder folder;
  const std::string cut = folder / "cut.flac";
  spill(cut, slurp(kRecording).substr(0, 2000));
  const std::vector<std::tuple<int, Words, std::string>> cases{
      {1, attend_to(kSpeechModel, kRecording, {"--start", "99"}),
       "expected a start before the end of the sound at"},
      {2, attend_to(kSpeechModel, kRecording, {"--start", "-1"}),
       "--start: expected a number of at least 0, got -1"},
      {1, attend_to(kSpeechModel, "none.wav"), "none.wav: not found"},
      {1, attend_to(kSpeechModel, kSpeechModel + "/config.json"), "expected a sound file"},
      {1, attend_to(kSpeechModel, cut), "cut.flac: "},
      {2, attend_to(kSpeechModel, kRecording, {"--target", "a"}), "expected none for a recording"},
      {2, attend_to(kSpeechModel, kRecording, {"--kind", "encoder", "--time", "7"}),
       "--time: expected seconds from 0 to below"},
      {2, attend_to(kSpeechModel, kRecording, {"--time", "0.5"}), "--time: expected a recording"},
      {2, attend_to(kSpeechModel, kRecording, {"--heads", "alignment", "--kind", "encoder"}),
       "--heads: expected alignment only"},
      {2, attend_to(tiny_model(), "a b", {"--start", "1"}),
       "--start: expected a model that hears, such as whisper, got"},
      {2, attend_to(tiny_model(), "a b", {"--heads", "alignment", "--target", "b"}),
       "--heads: expected alignment only"},
      {1, attend_to(HEED_FIXTURES "/moonshine", kRecording), "/moonshine: no tokenizer found"},
  };
  for (const auto& [status, words, message] : cases) {
    const Result result = run(words);
    EXPECT_EQ(result.status, status) << message << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(lines(result.err).size(), 1u) << result.err;
  }
}

}  // namespace
}  // namespace heed::cli_test
