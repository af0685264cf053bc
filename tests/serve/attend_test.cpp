// Attention maps over HTTP: the weights of a forward pass, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/nn/stack.h"
#include "serve/asking.h"

namespace heed::serve_test {
namespace {

using testing::HasSubstr;

std::vector<serve::ServedModel> with_attention() {
  std::vector<serve::ServedModel> models;
  models.push_back(served("encoders/bert-mlm"));
  models.push_back(shakespeare());
  models.push_back(served("../../models/en-fr"));
  return models;
}

TEST(Attend, WeightsAreThoseOfTheForwardPass) {
  const serve::ServedModel model = served("encoders/bert-mlm");
  Asking server(with_attention());
  const Answer answer = server.post("/attend", {{"text", "a b c"}, {"layers", {1}}, {"heads", {2}}});
  EXPECT_EQ(server.post("/attend", {{"text", "a b c"}, {"layers", {1}}, {"heads", {2, 2}}}).text,
            answer.text);
  ASSERT_EQ(answer.status, 200) << answer.text;
  const std::vector<std::int64_t> ids = model.tokenizer().encode("a b c").ids;
  const auto size = static_cast<std::int64_t>(ids.size());
  const TensorMap outputs =
      model.model().forward({{"input_ids", Tensor::from(ids, {1, size})}}, {.attentions = true});
  const std::vector<float> all = outputs.at("attentions.1").to_vector<float>();
  ASSERT_EQ(answer.json["maps"].size(), 1u);
  const Json& map = answer.json["maps"][0];
  EXPECT_EQ(map["layer"], 1);
  EXPECT_EQ(map["head"], 2);
  for (std::int64_t q = 0; q < size; ++q) {
    for (std::int64_t k = 0; k < size; ++k) {
      const double expected = static_cast<double>(all[static_cast<std::size_t>((2 * size + q) * size + k)]);
      EXPECT_NEAR(map["weights"][static_cast<std::size_t>(q)][static_cast<std::size_t>(k)].get<double>(),
                  expected, 1e-5);
    }
  }
}

TEST(Attend, EveryKindOfModel) {
  Asking server(with_attention());
  EXPECT_THAT(server.post("/attend", {{"model", "shakespeare"}, {"text", "KING"}}).text,
              HasSubstr("\"decoder\""));
  const Answer translation = server.post(
      "/attend",
      {{"model", "en-fr"}, {"text", "a cat"}, {"target", "un chat"}, {"kind", "cross"}, {"layers", {0}}});
  EXPECT_THAT(translation.text, HasSubstr("\"cross\"")) << translation.text;
  server::HttpRequest page = request_of("POST", "/attend", R"({"text": "a b c"})");
  page.accept = "text/html,application/xhtml+xml";
  EXPECT_THAT(server.ask(page).text, testing::StartsWith("<!DOCTYPE html>"));
}

// Before the pass: queries times keys times heads times layers.
TEST(Attend, TooManyWeightsAreRefused) {
  std::vector<serve::ServedModel> models;
  models.push_back(served("../../models/reviews-mlm"));  // 4 layers of 4 heads
  const Tokenizer& tokenizer = models.front().tokenizer();
  std::string text;
  while (tokenizer.encode(text + "a ").size() <= 512) text += "a ";
  Asking server(std::move(models));
  const Answer all = server.post("/attend", {{"text", text}});
  EXPECT_EQ(all.status, 413);
  EXPECT_THAT(all.text, HasSubstr("expected at most 4000000 weights, got 4194304 (choose layers and heads)"));
  EXPECT_EQ(server.post("/attend", {{"text", text}, {"layers", {0}}, {"heads", {3}}}).status, 200);
}

// The page says what the model has beside what it shows.
TEST(Attend, PagesSayWhatTheModelHas) {
  Asking server(with_attention());
  server::HttpRequest page = request_of(
      "POST", "/attend", R"({"model": "shakespeare", "text": "KING", "layers": [1], "heads": [0, 2]})");
  page.accept = "text/html";
  const serve::ServedModel model = shakespeare();
  const std::string layers = std::to_string(model.model().stack_named("decoder")->layers.size());
  EXPECT_THAT(server.ask(page).text, HasSubstr("\"sizes\":{\"decoder\":[" + layers + ","));
}

TEST(Attend, WrongRequestsAreRefused) {
  Asking server(with_attention());
  struct Case {
    Json body;
    int status;
    const char* told;
  };
  for (const Case& one :
       std::vector<Case>{{Json::object(), 400, "text"},
                         {{{"model", "shakespeare"}, {"text", ""}}, 400, "a text with tokens"},
                         {{{"text", "a"}, {"layers", {99}}}, 400, "an integer from 0 to 1, got 99"},
                         {{{"text", "a"}, {"heads", {99}}}, 400, "99"},
                         {{{"text", "a"}, {"kind", "cross"}}, 400, "kind: expected one of encoder"},
                         {{{"text", "a"}, {"target", "b"}}, 400, "target"},
                         {{{"model", "en-fr"}, {"text", "a"}}, 400, "target"},
                         {{{"model", "shakespeare"}, {"text", std::string(600, 'a')}}, 413, "512"}}) {
    const Answer answer = server.post("/attend", one.body);
    EXPECT_EQ(answer.status, one.status) << answer.text;
    EXPECT_THAT(answer.text, HasSubstr(one.told));
  }
}

}  // namespace
}  // namespace heed::serve_test
