// What one request may cost the others: the turns that it takes, and what it may ask for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/asking.h"

namespace heed::serve_test {
namespace {

using testing::HasSubstr;

std::vector<serve::ServedModel> decoder() {
  std::vector<serve::ServedModel> models;
  models.push_back(shakespeare());
  return models;
}

TEST(Limits, ScoresOfAPromptThatIsReadInPieces) {
  const Json request = {{"prompt", {"Once upon a time there was a king", "To be or not to be"}},
                        {"echo", true},
                        {"logprobs", 3},
                        {"temperature", 0},
                        {"max_tokens", 4}};
  serve::SchedulerLimits pieces;
  pieces.generation.prompt_tokens = 5;
  const Answer whole = Asking(decoder()).post("/v1/completions", request);
  const Answer parts = Asking(decoder(), {}, pieces).post("/v1/completions", request);
  ASSERT_EQ(whole.status, 200) << whole.text;
  EXPECT_EQ(whole.json["choices"], parts.json["choices"]);
  EXPECT_EQ(whole.json["choices"][0]["logprobs"]["tokens"].size(), 37u);
}

TEST(Limits, OfListsAndTexts) {
  Asking server(decoder());
  const auto status = [&](const char* field, const Json& value) {
    const Answer answer =
        server.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}, {field, value}});
    EXPECT_TRUE(answer.status == 200 || answer.json["error"]["param"] == field) << answer.text;
    return answer.status;
  };
  const auto texts = [](std::size_t count) { return std::vector<std::string>(count, "x"); };
  EXPECT_EQ(status("stop", texts(64)), 200);
  EXPECT_EQ(status("stop", texts(65)), 413);
  EXPECT_EQ(status("stop", std::string(256, 'x')), 200);
  EXPECT_EQ(status("stop", std::string(257, 'x')), 413);
  EXPECT_EQ(status("stop", Json::array({"x", std::string(257, 'x')})), 413);
  EXPECT_EQ(status("stop_token_ids", std::vector<int>(1025, 1)), 413);
  EXPECT_EQ(status("guided_choice", texts(4097)), 413);
  Json biases = Json::object();
  for (int id = 0; id <= 4096; ++id) biases[std::to_string(id)] = 1;
  EXPECT_EQ(status("logit_bias", biases), 413);
  EXPECT_THAT(server.post("/v1/completions", {{"prompt", "a"}, {"stop", texts(65)}}).text,
              HasSubstr("request: stop: expected at most 64, got 65"));
}

TEST(Limits, IdsOfTokensThatTheModelDoesNotHaveAreNamed) {
  Asking server(decoder());
  std::vector<int> ids(40, 1);
  ids[30] = 66;
  const auto refuses = [&](const char* path, const char* key, const Json& body, const char* id) {
    const Answer answer = server.post(path, body);
    EXPECT_EQ(answer.status, 400) << answer.text;
    EXPECT_THAT(answer.text, HasSubstr("request: " + std::string(key) +
                                       ": expected ids of tokens from 0 to 65, got " + id));
  };
  refuses("/v1/completions", "prompt", {{"prompt", ids}}, "66");
  refuses("/v1/completions", "prompt", {{"prompt", {{1, 2}, {3, -1}}}}, "-1");
  refuses("/v1/completions", "prompt", {{"prompt", {1, 2.5}}}, "2.5");
  refuses("/v1/completions", "logit_bias", {{"prompt", "a"}, {"logit_bias", {{"66", 1}}}}, "\\\"66\\\"");
  refuses("/v1/embeddings", "input", {{"input", ids}}, "66");
  refuses("/embed", "inputs", {{"inputs", {ids}}}, "66");
  refuses("/decode", "ids", {{"ids", ids}}, "66");
  refuses("/detokenize", "tokens", {{"tokens", ids}}, "66");
}

// A character of this model is a token.
TEST(Limits, TextsAreRefusedBeforeTheyAreTokenized) {
  Asking server(decoder());
  const Json limits = server.get("/v1/models").json["data"][0];
  const auto most = limits["max_model_len"].get<std::size_t>();
  const Answer prompt = server.post("/v1/completions", {{"prompt", std::string(8 * most, 'a')}});
  EXPECT_EQ(prompt.status, 400);
  EXPECT_EQ(prompt.json["error"]["code"], "context_length_exceeded");
  EXPECT_THAT(prompt.text, HasSubstr("bytes"));
  EXPECT_EQ(server.post("/embed", {{"inputs", std::string(1 << 20, 'a')}}).status, 200) << "is cut";
  EXPECT_EQ(server.post("/embed", {{"inputs", std::string((1 << 20) + 1, 'a')}}).status, 413);
  EXPECT_EQ(server.post("/embed", {{"inputs", std::string(8 * most, 'a')}, {"truncate", false}}).status, 413);
  for (const char* field : {"inputs", "content", "prompt"}) {
    EXPECT_EQ(server.post("/tokenize", {{field, std::string((1 << 20) + 1, 'a')}}).status, 413) << field;
    EXPECT_EQ(server.post("/tokenize", {{field, std::string(1000, 'a')}}).status, 200) << field;
  }
  EXPECT_EQ(
      server.post("/tokenize", {{"inputs", std::vector<std::string>(1025, std::string(1024, 'a'))}}).status,
      413);
  EXPECT_EQ(server.post("/decode", {{"ids", std::vector<int>((1 << 20) + 1, 1)}}).status, 413);
  EXPECT_EQ(server.post("/decode", {{"ids", std::vector<int>(5000, 1)}}).status, 200) << "ids of one text";
  EXPECT_EQ(server.post("/embed", {{"inputs", std::vector<int>(5000, 1)}}).status, 200);
  EXPECT_EQ(server.post_text("/embed", "{\"inputs\": [" + std::string(1 << 21, ',') + "]}").status, 413);
}

TEST(Limits, CandidatesCountInTheQueue) {
  serve::SchedulerLimits limits;
  limits.queue_tokens = 100;
  Asking server(decoder(), {}, limits);
  const auto status = [&](int n) {
    return server.post("/v1/completions", {{"prompt", "ten tokens"}, {"n", n}, {"max_tokens", 1}}).status;
  };
  EXPECT_EQ(status(10), 200);
  EXPECT_EQ(status(11), 413);
}

TEST(Limits, RequestsHaveAnId) {
  Asking server(decoder(), {.keys = {"one", "two"}});
  server::HttpRequest request = request_of("GET", "/v1/models");
  request.authorization = "Bearer two";
  request.client = "192.0.2.1";
  request.id = "job-7.a:b_c";
  EXPECT_EQ(server.ask(request).header("X-Request-Id"), request.id);
  Json line = parse_json(server.log().back(), "log");
  EXPECT_EQ(line["id"], request.id);
  EXPECT_EQ(line["client"], "192.0.2.1");
  EXPECT_EQ(line["key"], "2");
  EXPECT_FALSE(line.contains("error"));
  for (const std::string& id : {std::string(), std::string("a\nb"), std::string(129, 'a')}) {
    request.id = id;
    request.authorization = "Bearer three";
    const std::string made = server.ask(request).header("X-Request-Id");
    EXPECT_EQ(made.size(), 32u);
    line = parse_json(server.log().back(), "log");
    EXPECT_EQ(line["id"], made);
    EXPECT_EQ(line["error"], "invalid_api_key");
    EXPECT_FALSE(line.contains("key"));
  }
}

TEST(Limits, AKeyHasItsOwn) {
  Asking server(decoder(),
                {.keys = {server::parse_key("one name=alice requests-per-minute=2 tokens-per-minute=5000"),
                          server::parse_key("uno name=alice requests-per-minute=2"),
                          server::parse_key("two name=bob requests=1"), "three"}});
  const auto asked = [&](const std::string& key, const std::string& path, const std::string& body) {
    server::HttpRequest request = request_of(body.empty() ? "GET" : "POST", path, body);
    request.authorization = "Bearer " + key;
    return request;
  };
  const std::string brief = R"({"prompt": "a", "max_tokens": 3})";
  const Answer first = server.ask(asked("one", "/v1/completions", brief));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.header("x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(first.header("x-ratelimit-remaining-requests"), "1");
  EXPECT_EQ(first.header("x-ratelimit-limit-tokens"), "5000");
  EXPECT_EQ(server.ask(asked("uno", "/v1/completions", brief)).status, 200) << "another key of the same name";
  const Answer refused = server.ask(asked("one", "/v1/completions", brief));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.json["error"]["code"], "rate_limit_exceeded");
  EXPECT_EQ(refused.json["error"]["message"],
            "key alice: expected at most 2 requests a minute (try again later)");
  EXPECT_GE(std::stoi(refused.header("Retry-After")), 29);
  EXPECT_EQ(refused.header("x-ratelimit-remaining-requests"), "0");
  Json line = parse_json(server.log().back(), "log");
  EXPECT_EQ(line["key"], "alice");
  EXPECT_EQ(line["error"], "rate_limit_exceeded");
  EXPECT_EQ(server.ask(asked("one", "/v1/models", "")).status, 200) << "it computes nothing";
  for (int i = 0; i < 4; ++i) EXPECT_EQ(server.ask(asked("three", "/v1/completions", brief)).status, 200);

  const auto running = server.begin(asked(
      "two", "/v1/completions", R"({"prompt": "a", "max_tokens": 250, "ignore_eos": true, "stream": true})"));
  running->await_bytes(1);
  EXPECT_EQ(server.ask(asked("two", "/v1/completions", brief)).status, 429);
  running->response();
  EXPECT_EQ(server.ask(asked("two", "/v1/completions", brief)).status, 200);
  const std::string metrics = server.ask(asked("two", "/metrics", "")).text;
  for (const char* counted : {"heed_key_requests_total{key=\"alice\",status=\"429\"} 1\n",
                              "heed_key_requests_total{key=\"bob\",status=\"200\"} 2\n",
                              "heed_key_tokens_total{key=\"alice\"} 8\n"})
    EXPECT_THAT(metrics, testing::HasSubstr(counted));
}

TEST(Limits, NewTokensOfAnAnswerAreCapped) {
  serve::SchedulerLimits limits;
  limits.new_tokens = 7;
  Asking server(decoder(), {}, limits);
  const auto tokens = [&](const Json& more) {
    Json body = {{"prompt", "KING: "}, {"ignore_eos", true}};
    body.update(more);
    const Json answer = server.post("/v1/completions", body).json;
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
    return answer["usage"]["completion_tokens"].get<int>();
  };
  EXPECT_EQ(tokens({{"max_tokens", 100}}), 7);
  EXPECT_EQ(tokens(Json::object()), 7);
  EXPECT_EQ(tokens({{"max_tokens", 3}}), 3);
}

TEST(Limits, HealthIsForAnyHost) {
  serve::SchedulerLimits none;
  none.queue = 0;
  Asking server(decoder(), {.host = "127.0.0.1"}), full(decoder(), {}, none);
  for (const char* path : {"/health", "/ready"}) {
    server::HttpRequest request = request_of("GET", path);
    request.host = "evil.example";
    EXPECT_EQ(server.ask(request).text, R"({"status":"ok"})");
    request.stopping = true;
    EXPECT_EQ(server.ask(request).text, R"({"status":"stopping"})");
  }
  EXPECT_EQ(full.get("/ready").status, 503);
  EXPECT_EQ(full.get("/ready").text, R"({"status":"full"})");
  EXPECT_EQ(full.get("/health").status, 200);
}

}  // namespace
}  // namespace heed::serve_test
