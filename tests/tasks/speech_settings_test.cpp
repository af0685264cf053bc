// Reading what generation_config.json of a Whisper says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"
#include "tasks/speech_fixture.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

const EncoderDecoderModel& model() {
  static const SpeechFixture fixture;
  return fixture.model;
}

// Reads a changed generation_config.json.
SpeechSettings changed(const Json& changes, std::vector<std::string>* unused = nullptr) {
  const TemporaryFolder folder;
  Json json = read_json((kSpeech / "generation_config.json").string());
  json.merge_patch(changes);
  spill(folder / "generation_config.json", json.dump());
  std::filesystem::copy(kSpeech / "config.json", folder / "config.json");
  return load_speech_settings(folder.path().string(), model(), unused);
}

std::string error(const Json& changes) {
  return error_of([&] { changed(changes); });
}

TEST(SpeechSettings, AreThoseOfTheFile) {
  std::vector<std::string> unused;
  const SpeechSettings s = changed({{"return_timestamps", true}, {"no_such_key", 1}}, &unused);
  EXPECT_THAT(unused, ElementsAre("no_such_key"));
  EXPECT_EQ(s.start, 101);
  EXPECT_EQ(s.no_timestamps, 108);
  EXPECT_EQ(s.no_speech(), 107);
  EXPECT_EQ(s.previous_text, 106);
  EXPECT_EQ(s.most_initial_timestamp, 16);
  EXPECT_EQ(s.languages, (std::vector<std::pair<std::string, std::int64_t>>{{"en", 102}, {"fr", 103}}));
  EXPECT_EQ(s.transcribe, 105);
  EXPECT_EQ(s.translate, 104);
  EXPECT_EQ(s.language, std::nullopt);
  EXPECT_FALSE(s.translates);
  EXPECT_EQ(s.alignment_heads, (std::vector<std::array<std::int64_t, 2>>{{0, 1}, {1, 0}, {1, 3}}));
  EXPECT_EQ(s.median_filter_width, 7);
  EXPECT_EQ(s.generation.suppress_tokens.size(), 7u);
}

TEST(SpeechSettings, HaveDefaults) {
  const SpeechSettings s = changed({{"prev_sot_token_id", nullptr},
                                    {"max_initial_timestamp_index", nullptr},
                                    {"alignment_heads", nullptr}});
  EXPECT_EQ(s.previous_text, 106);
  EXPECT_EQ(s.most_initial_timestamp, std::nullopt);
  EXPECT_EQ(s.alignment_heads, (std::vector<std::array<std::int64_t, 2>>{{1, 0}, {1, 1}, {1, 2}, {1, 3}}));
  const SpeechSettings english = changed({{"is_multilingual", false}});
  EXPECT_THAT(english.languages, IsEmpty());
}

TEST(SpeechSettings, TakeTheLanguageOfAFineTunedModel) {
  EXPECT_EQ(changed({{"language", "French"}, {"task", "translate"}}).language, "fr");
  EXPECT_TRUE(changed({{"language", "French"}, {"task", "translate"}}).translates);
  const SpeechSettings forced = changed({{"forced_decoder_ids", {{1, 103}, {2, 104}}}});
  EXPECT_EQ(forced.language, "fr");
  EXPECT_TRUE(forced.translates);
}

TEST(SpeechSettings, NameWhatIsWrong) {
  EXPECT_THAT(error({{"no_timestamps_token_id", nullptr}}), HasSubstr("no_timestamps_token_id"));
  EXPECT_THAT(error({{"no_timestamps_token_id", 160}}), HasSubstr("expected a token below 160, got 160"));
  EXPECT_THAT(error({{"lang_to_id", nullptr}}),
              HasSubstr("lang_to_id: expected the tokens of the languages"));
  EXPECT_THAT(error({{"lang_to_id", {{"<|fr|>", -1}}}}), HasSubstr("expected a token below 160, got -1"));
  EXPECT_THAT(error({{"task_to_id", nullptr}}), HasSubstr("task_to_id: expected the tokens of the tasks"));
  EXPECT_THAT(error({{"alignment_heads", {{2, 0}}}}),
              HasSubstr("alignment_heads: expected pairs of a layer below 2 and a head below 4"));
  EXPECT_THAT(error({{"max_initial_timestamp_index", -1}}), HasSubstr("expected 0 or more, got -1"));
  EXPECT_THAT(error({{"task", "sing"}}), HasSubstr("task: expected \"transcribe\" or \"translate\""));
  EXPECT_THAT(error({{"language", "xx"}}), HasSubstr("got xx"));
  EXPECT_THAT(error({{"eos_token_id", {100, 101}}}), HasSubstr("eos_token_id: expected one token"));
  EXPECT_THAT(error_of([&] { load_speech_settings("/no/such/folder", model()); }),
              HasSubstr("/no/such/folder/generation_config.json: not found"));
}

TEST(SpeechLanguage, IsFoundByCodeAndName) {
  const SpeechSettings s = changed(Json::object());
  EXPECT_EQ(speech_language(s, "FR"), "fr");
  EXPECT_EQ(speech_language(s, "English"), "en");
  EXPECT_ERROR(speech_language(s, "Frnch"), "(did you mean french?)");
  EXPECT_ERROR(speech_language(s, "german"), "one of the model's 2 languages, got german");
}

TEST(SpeechSettings, AreOfModelsOfSpectrograms) {
  const std::filesystem::path moonshine = std::filesystem::path(HEED_FIXTURES) / "moonshine";
  const auto model = load_as<EncoderDecoderModel>(moonshine);
  EXPECT_ERROR(
      load_speech_settings(moonshine.string(), *model),
      "moonshine: expected a model that takes spectrograms, such as whisper, got moonshine, which takes "
      "input_values");
}

}  // namespace
}  // namespace heed
