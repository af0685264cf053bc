// Translations over HTTP: equal to translate().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "heed/generate/translate.h"
#include "reference/temporary_folder.h"
#include "serve/asking.h"

namespace heed::serve_test {
namespace {

using testing::HasSubstr;

std::vector<serve::ServedModel> with_translation() {
  std::vector<serve::ServedModel> models;
  models.push_back(served("encoders/bert-mlm"));
  models.push_back(served("../../models/en-fr"));
  return models;
}

TEST(TranslateRoute, EqualsTranslate) {
  const serve::ServedModel model = served("../../models/en-fr");
  const std::vector<std::string> texts{"The cat sat on the mat.", "", "Good morning."};
  Asking server(with_translation());
  for (const std::int64_t beams : {std::int64_t{4}, std::int64_t{1}}) {
    TranslateOptions options;
    options.generation = load_generation_options(model.opened.directory());
    ASSERT_EQ(options.generation.num_beams, 4);
    Json body = {{"text", texts}};
    if (beams == 1) body["num_beams"] = options.generation.num_beams = 1;
    const auto expected = translate(*model.encoder_decoder(), model.tokenizer(), texts, options);
    const Answer answer = server.post("/translate", body);
    ASSERT_EQ(answer.status, 200) << answer.text;
    ASSERT_EQ(answer.json["translations"].size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const Hypothesis& best = expected[i].candidates.front().hypothesis;
      EXPECT_EQ(answer.json["translations"][i]["text"], expected[i].text());
      EXPECT_EQ(answer.json["translations"][i]["finish_reason"], "stop");
      EXPECT_NEAR(answer.json["translations"][i]["score"].get<double>(),
                  beams > 1 ? best.beam_score : best.score, 1e-9);
    }
  }
  const Answer shorter = server.post("/translate", {{"text", texts[0]}, {"max_new_tokens", 2}});
  ASSERT_EQ(shorter.status, 200) << shorter.text;
  EXPECT_LT(shorter.json["translations"][0]["text"].get<std::string>().size(), 12u);
  EXPECT_EQ(shorter.json["translations"][0]["finish_reason"], "length");
}

TEST(TranslateRoute, LongTextsAreRefusedOrCut) {
  const serve::ServedModel model = served("../../models/en-fr");
  std::string text;
  for (int i = 0; i < 100; ++i) text += "The cat sat on the mat. ";
  Asking server(with_translation());
  const Answer refused = server.post("/translate", {{"text", {"Good morning.", text}}});
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.text,
              HasSubstr("text 2: expected at most " + std::to_string(*model.model().max_positions()) +
                        " tokens, got " + std::to_string(model.tokenizer().encode(text).size())));
  const Answer longer = server.post("/translate", {{"text", text + text + text}});
  EXPECT_EQ(longer.status, 413);
  EXPECT_THAT(longer.text, HasSubstr("bytes")) << "before it is tokenized";
  const Answer cut = server.post("/translate", {{"text", text}, {"truncate", true}});
  ASSERT_EQ(cut.status, 200) << cut.text;
  TranslateOptions options;
  options.generation = load_generation_options(model.opened.directory());
  const auto expected = translate(*model.encoder_decoder(), model.tokenizer(), std::span(&text, 1), options);
  EXPECT_EQ(cut.json["translations"][0]["text"], expected[0].text());
}

// What many ask for at once is generated together, with the bits that each text gets alone.
TEST(TranslateRoute, ManyTextsShareTheirPasses) {
  const serve::ServedModel model = served("../../models/en-fr");
  const std::vector<std::vector<std::string>> all{{"The cat sat on the mat.", "Good morning."},
                                                  {"Yes."},
                                                  {"  "},
                                                  {"Where is the station, please?", "", "No."},
                                                  {"I am hungry"},
                                                  {"She reads a long book about the sea."}};
  Asking server(with_translation());
  std::vector<std::shared_ptr<Received>> waiting;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Json body = {{"text", all[i]}, {"num_beams", 1 + i % 3}};
    waiting.push_back(server.begin(request_of("POST", "/translate", body.dump())));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    TranslateOptions options;
    options.generation = load_generation_options(model.opened.directory());
    options.generation.num_beams = static_cast<std::int64_t>(1 + i % 3);
    const auto& response = waiting[i]->response();
    ASSERT_EQ(response.status, 200) << response.body;
    const Json got = parse_json(response.body, "answer")["translations"];
    ASSERT_EQ(got.size(), all[i].size());
    for (std::size_t text = 0; text < all[i].size(); ++text) {
      const auto alone =
          translate(*model.encoder_decoder(), model.tokenizer(), std::span(&all[i][text], 1), options);
      const Hypothesis& best = alone[0].candidates[0].hypothesis;
      EXPECT_EQ(got[text]["text"], alone[0].text());
      EXPECT_EQ(got[text]["score"].get<double>(),
                options.generation.num_beams > 1 ? best.beam_score : best.score);
    }
  }
}

// A small M2M100 with random weights: each request has its languages, whatever those before it had.
TEST(TranslateRoute, TranslatesBetweenLanguages) {
  const TemporaryFolder folder;
  const std::filesystem::path fixtures = HEED_FIXTURES;
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(fixtures / "m2m100" / name, folder.path() / name);
  const std::filesystem::path languages = fixtures / "tokenizers/languages";
  std::filesystem::copy_file(languages / "bpe.model", folder.path() / "sentencepiece.bpe.model");
  std::filesystem::copy_file(languages / "vocab.json", folder.path() / "vocab.json");
  std::ofstream(folder.path() / "tokenizer_config.json") << "{}";
  const auto loaded = [&] {
    std::vector<serve::ServedModel> models;
    models.push_back(serve::serve_model("many", load(folder.path().string())));
    return models;
  };
  const std::vector<serve::ServedModel> models = loaded();
  const std::vector<std::string> texts{"the cold sea"};
  const auto expected = [&](const char* source, const char* target) {
    const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(folder.path());
    tokenizer->set_languages(source, target);
    TranslateOptions options;
    options.generation = load_generation_options(folder.path().string());
    options.generation.max_new_tokens = 5;
    options.generation.forced_bos_token_id = tokenizer->languages()->target->id;
    return translate(*models[0].encoder_decoder(), *tokenizer, texts, options).front().text();
  };
  Asking server(loaded());
  const auto got = [&](const char* source, const char* target) {
    return server
        .post("/translate",
              {{"text", texts}, {"source_lang", source}, {"target_lang", target}, {"max_new_tokens", 5}})
        .json["translations"][0]["text"];
  };
  EXPECT_EQ(got("fr", "__de__"), expected("fr", "de"));
  EXPECT_EQ(got("en", "fr"), expected("en", "fr"));
  EXPECT_EQ(got("fr", "de"), expected("fr", "de"));
  EXPECT_THAT(server.post("/translate", {{"text", "a"}, {"source_lang", "frr"}}).text,
              HasSubstr("source_lang: expected one of the model's 100 languages"));
}

TEST(TranslateRoute, WrongRequestsAreRefused) {
  Asking server(with_translation());
  struct Case {
    Json body;
    int status;
    const char* told;
  };
  for (const Case& one :
       std::vector<Case>{{Json::object(), 400, "text"},
                         {{{"text", Json::array()}}, 400, "at least one"},
                         {{{"text", {1}}}, 400, "strings alone"},
                         {{{"text", "a"}, {"model", "bert-mlm"}}, 400, "translates texts"},
                         {{{"text", "a"}, {"num_beams", 0}}, 400, "num_beams"},
                         {{{"text", "a"}, {"target_lang", "fr"}}, 400, "no choice of languages"},
                         {{{"text", std::string(3000, 'a')}, {"truncate", false}}, 413, "tokens"}}) {
    const Answer answer = server.post("/translate", one.body);
    EXPECT_EQ(answer.status, one.status) << answer.text;
    EXPECT_THAT(answer.text, HasSubstr(one.told));
  }
}

}  // namespace
}  // namespace heed::serve_test
