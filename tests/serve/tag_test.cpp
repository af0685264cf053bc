// Labels of tokens: those of Hugging Face's pipeline, in its form, of one text and of several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "heed/tasks/tag.h"
#include "reference/temporary_folder.h"
#include "serve/asking.h"

namespace heed::serve_test {
namespace {

using testing::HasSubstr;

Json read_json(const std::filesystem::path& file) {
  std::ifstream in(file);
  return Json::parse(in);
}

// What the pipeline says, and the labels with which it says so.
Json expected() { return read_json(std::filesystem::path(HEED_FIXTURES) / "tasks/expected.json"); }

serve::ServedModel tagger() {
  const TemporaryFolder folder;
  std::filesystem::copy(std::filesystem::path(HEED_FIXTURES) / "encoders/bert-tag", folder.path(),
                        std::filesystem::copy_options::recursive);
  Json config = read_json(folder.path() / "config.json");
  config.update(expected()["tag_config"]);
  std::ofstream(folder.path() / "config.json") << config;
  return serve::serve_model("tagger", load(folder.path().string()));
}

TEST(Tag, EntitiesAreThoseOfThePipeline) {
  Asking server(only(tagger()));
  const Json rows = expected()["tag"];
  std::size_t entities = 0;
  for (const Json& row : rows) {
    const Answer answer =
        server.post("/tag", {{"inputs", row["text"]}, {"aggregation_strategy", row["aggregation"]}});
    ASSERT_EQ(answer.json.size(), row["result"].size()) << answer.text;
    for (std::size_t i = 0; i < answer.json.size(); ++i) {
      EXPECT_NEAR(answer.json[i]["score"].get<double>(), row["result"][i]["score"].get<double>(), 2e-5);
      Json found = answer.json[i], wanted = row["result"][i];
      found.erase("score");
      wanted.erase("score");
      EXPECT_EQ(found, wanted) << row["aggregation"] << " " << row["text"];
      ++entities;
    }
  }
  EXPECT_GT(entities, 40u);
}

TEST(Tag, ALongTextIsReadInWindowsAsByTheLibrary) {
  const serve::ServedModel model = tagger();
  std::string text;
  for (int i = 0; i < 60; ++i) text += "ça, 😀 cat ";
  const std::vector<std::string> texts = {text, "The cat.", ""};
  TagOptions options;
  options.stride = 8;
  const auto wanted = tag(*model.encoder(), model.tokenizer(), texts, options);
  ASSERT_GT(wanted[0].size(), 1u);
  EXPECT_EQ(wanted[0].back().end, 599) << "characters, not bytes";
  serve::SchedulerLimits limits;
  limits.batch_tokens = 100;
  Asking server(only(tagger()), {}, limits);
  const Json found = server.post("/tag", {{"inputs", texts}, {"stride", 8}}).json;
  ASSERT_EQ(found.size(), texts.size()) << found;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Json all = Json::array();
    for (const TaggedText& one : wanted[i])
      all.push_back({{"entity_group", one.label},
                     {"score", one.score},
                     {"word", one.word},
                     {"start", one.start},
                     {"end", one.end}});
    EXPECT_EQ(found[i], all);
    EXPECT_EQ(server.post("/tag", {{"inputs", texts[i]}, {"stride", 8}}).json, all) << "alone";
  }
}

TEST(Tag, TheRootAnswersAsAnEndpointWithOneModel) {
  Asking server(only(tagger()));
  const std::string text = "The cat sat on the mat.";
  EXPECT_EQ(server.post("/", {{"inputs", text}}).json, server.post("/tag", {{"inputs", text}}).json);
  const auto none = [&](const Json& ignored) {
    const Json parameters = {{"aggregation_strategy", "none"}, {"ignore_labels", ignored}};
    return server.post("/", {{"inputs", text}, {"parameters", parameters}}).json;
  };
  EXPECT_EQ(none(nullptr), server.post("/tag", {{"inputs", text}, {"aggregation_strategy", "none"}}).json);
  std::size_t of_place = 0;
  for (const Json& one : none(Json::array())) of_place += one["entity"] == "B-LOC";
  ASSERT_GT(of_place, 0u);
  EXPECT_EQ(none({"B-LOC"}).size(), none(Json::array()).size() - of_place);
}

TEST(Tag, RefusesWhatItCannotRead) {
  std::vector<serve::ServedModel> models = only(tagger());
  models.push_back(served("encoders/bert-classify"));
  Asking server(std::move(models));
  struct Case {
    Json body;
    int status;
    const char* message;
  };
  for (const Case& one : std::vector<Case>{
           {Json::object(), 400, "request: inputs: expected a text, or an array of texts"},
           {{{"inputs", Json::array()}}, 400, "request: inputs: expected at least one"},
           {{{"inputs", {"a", 5}}}, 400, "request: inputs"},
           {{{"inputs", std::vector<std::string>(5000, "a")}}, 413, "4096"},
           {{{"inputs", std::string((1 << 20) + 1, 'a')}},
            413,
            "request: inputs: expected a text of at most"},
           {{{"inputs", "a"}, {"aggregation_strategy", "all"}}, 400, "request: aggregation_strategy"},
           {{{"inputs", "a"}, {"parameters", {{"stride", -1}}}}, 400, "request: parameters.stride"},
           {{{"inputs", "a"}, {"model", "bert-classify"}}, 424, "expected a model that labels tokens"}}) {
    const Answer answer = server.post("/tag", one.body);
    EXPECT_EQ(answer.status, one.status) << answer.text;
    EXPECT_THAT(answer.text, HasSubstr(one.message));
  }
  EXPECT_EQ(server.get("/v1/models").json["data"][0]["capabilities"][0], "token_classification");
  EXPECT_THAT(server.get("/metrics").text, HasSubstr("route=\"/tag\""));
}

}  // namespace
}  // namespace heed::serve_test
