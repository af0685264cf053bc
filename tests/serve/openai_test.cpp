// The routes of OpenAI: shapes, texts as the library's own functions give, streams, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base64.h"
#include "heed/generate/complete.h"
#include "reference/temporary_folder.h"
#include "serve/asking.h"

namespace heed::serve_test {
namespace {

using testing::HasSubstr;

std::string completed(const serve::ServedModel& model, const std::string& prompt, GenerationOptions options) {
  CompleteOptions all;
  all.generation = options;
  return complete(*model.decoder(), model.tokenizer(), std::vector<std::string>{prompt}, all)
      .front()
      .front()
      .text;
}

const std::string kPrompt = "KING: What, ";

Json completion(Json more) {
  Json body = {{"prompt", kPrompt}, {"max_tokens", 30}, {"temperature", 0}};
  body.update(more);
  return body;
}

TEST(OpenAi, CompletionsAreThoseOfTheLibrary) {
  const serve::ServedModel model = shakespeare();
  Asking server(only(shakespeare()));
  GenerationOptions options;
  options.max_new_tokens = 30;
  const std::string expected = completed(model, kPrompt, options);
  const Answer answer = server.post("/v1/completions", completion(Json::object()));
  EXPECT_EQ(answer.json["object"], "text_completion") << answer.text;
  EXPECT_THAT(answer.json["id"].get<std::string>(), HasSubstr("cmpl-"));
  EXPECT_EQ(answer.json["model"], "shakespeare");
  const Json& choice = answer.json["choices"].at(0);
  EXPECT_EQ(choice["text"], expected);
  EXPECT_EQ(choice["index"], 0);
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_TRUE(choice["logprobs"].is_null());
  const auto read = static_cast<int>(model.tokenizer().encode(kPrompt).size());
  EXPECT_EQ(answer.json["usage"]["prompt_tokens"], read);
  EXPECT_EQ(answer.json["usage"]["completion_tokens"], 30);
  EXPECT_EQ(answer.json["usage"]["total_tokens"], read + 30);
  EXPECT_EQ(answer.json["usage"]["prompt_tokens_details"]["cached_tokens"].is_number(), true);
  const Answer ids = server.post(
      "/v1/completions", completion({{"prompt", model.tokenizer().encode(kPrompt).ids}, {"echo", true}}));
  EXPECT_EQ(ids.json["choices"][0]["text"], kPrompt + expected) << ids.text;
  options.do_sample = true;
  options.top_k = 0;
  options.temperature = 0.8;
  options.seed = 7;
  const Answer sampled = server.post("/v1/completions", completion({{"temperature", 0.8}, {"seed", 7}}));
  EXPECT_EQ(sampled.json["choices"][0]["text"], completed(model, kPrompt, options));
  const Answer coldest =
      server.post("/v1/completions", completion({{"temperature", 1e-320}, {"logprobs", 2}}));
  EXPECT_EQ(coldest.json["choices"][0]["text"], expected) << coldest.text;
}

TEST(OpenAi, StreamsJoinToTheWholeAnswer) {
  Asking server(only(shakespeare()));
  const Json more = {{"n", 2}, {"temperature", 1}, {"seed", 3}};
  const Answer whole = server.post("/v1/completions", completion(more));
  Json streamed = completion(more);
  streamed["stream"] = true;
  streamed["stream_options"] = {{"include_usage", true}};
  const Answer answer = server.post("/v1/completions", streamed);
  const std::vector<Json> events = answer.events();
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(text_of(events, i), whole.json["choices"][static_cast<std::size_t>(i)]["text"]) << i;
  EXPECT_NE(text_of(events, 0), text_of(events, 1));
  EXPECT_TRUE(events.back()["choices"].empty());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 60);
  for (const Json& event : events) {
    EXPECT_EQ(event["id"], events.front()["id"]);
    EXPECT_EQ(event["object"], "text_completion");
  }
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], "length");
}

TEST(OpenAi, APromptThatIsKnownIsCountedOnce) {
  serve::SchedulerLimits limits;
  limits.generation.cached_bytes = std::size_t{1} << 24;
  Asking server(only(shakespeare()), {}, limits);
  std::string prompt;
  for (int i = 0; i < 8; ++i) prompt += kPrompt;
  const Json body = completion({{"prompt", prompt}, {"n", 4}, {"max_tokens", 2}});
  server.post("/v1/completions", body);
  const Json usage = server.post("/v1/completions", body).json["usage"];
  EXPECT_GT(usage["prompt_tokens_details"]["cached_tokens"].get<int>(), 0) << usage;
  EXPECT_LE(usage["prompt_tokens_details"]["cached_tokens"].get<int>(), usage["prompt_tokens"].get<int>());
}

TEST(OpenAi, ChatsFollowTheTemplate) {
  const serve::ServedModel model = chatting();
  Asking server(only(chatting()));
  GenerationOptions options;
  options.max_new_tokens = 20;
  const Json messages = {{{"role", "system"}, {"content", "Be brief"}},
                         {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "Hello"}}}}}};
  const std::string prompt = "system: Be brief\nuser: Hello\n";
  const Json body = {{"messages", messages}, {"temperature", 0}, {"max_completion_tokens", 20}};
  const auto ask = [&](const Json& more) {
    Json all = body;
    all.update(more);
    return server.post("/v1/chat/completions", all);
  };
  const Answer answer = ask(Json::object());
  EXPECT_EQ(answer.json["object"], "chat.completion") << answer.text;
  EXPECT_THAT(answer.json["id"].get<std::string>(), testing::StartsWith("chatcmpl-"));
  EXPECT_EQ(answer.json["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(answer.json["choices"][0]["message"]["content"],
            completed(model, prompt + "assistant: ", options));
  EXPECT_EQ(ask({{"add_generation_prompt", false}}).json["choices"][0]["message"]["content"],
            completed(model, prompt, options));
  EXPECT_EQ(ask({{"chat_template_kwargs", {{"reply", "KING"}}}}).json["choices"][0]["message"]["content"],
            completed(model, prompt + "KING: ", options));
  for (const Json& further : std::vector<Json>{{{"messages", 5}},
                                               {{"messages", Json::array()}},
                                               {{"tools", 5}},
                                               {{"add_generation_prompt", true}}}) {
    const std::string key = further.begin().key();
    const Answer refused = ask({{"chat_template_kwargs", further}});
    EXPECT_EQ(refused.status, 400) << refused.text;
    EXPECT_THAT(refused.text, testing::HasSubstr("chat_template_kwargs." + key));
  }
  Json begun = messages;
  begun.push_back({{"role", "assistant"}, {"content", "I am"}});
  EXPECT_EQ(ask({{"messages", begun}}).json["choices"][0]["message"]["content"],
            completed(model, prompt + "assistant: I am", options));
  const std::vector<Json> events = ask({{"stream", true}}).events();
  EXPECT_EQ(events.front()["choices"][0]["delta"], (Json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(text_of(events), answer.json["choices"][0]["message"]["content"]);
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events.back()["choices"][0]["delta"], Json::object());
  for (std::size_t i = 1; i < events.size(); ++i)
    EXPECT_FALSE(events[i]["choices"][0]["delta"].contains("role"));
  Asking without(only(shakespeare()));
  EXPECT_EQ(without.post("/v1/chat/completions", body).json["error"]["code"], "not_supported");
}

TEST(OpenAi, StopsAtTextsAndTokens) {
  const serve::ServedModel model = shakespeare();
  Asking server(only(shakespeare()));
  const std::string whole =
      server.post("/v1/completions", completion(Json::object())).json["choices"][0]["text"];
  const std::string stop = whole.substr(10, 3);
  const std::string expected = whole.substr(0, whole.find(stop));
  for (const Json& stops : {Json(stop), Json::array({"no such text", stop})}) {
    const Answer answer = server.post("/v1/completions", completion({{"stop", stops}}));
    EXPECT_EQ(answer.json["choices"][0]["text"], expected);
    EXPECT_EQ(answer.json["choices"][0]["finish_reason"], "stop");
    const std::vector<Json> events =
        server.post("/v1/completions", completion({{"stop", stops}, {"stream", true}})).events();
    EXPECT_EQ(text_of(events), expected);
    EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "stop");
  }
  const std::int64_t id = model.tokenizer().encode(whole.substr(4, 1)).ids.front();
  const Answer answer = server.post("/v1/completions", completion({{"stop_token_ids", {id}}}));
  EXPECT_EQ(answer.json["choices"][0]["text"], whole.substr(0, whole.find(whole[4])));
  EXPECT_EQ(answer.json["choices"][0]["finish_reason"], "stop");
}

TEST(OpenAi, LogProbabilitiesAreThoseOfTheModel) {
  const serve::ServedModel model = chatting();
  Asking server(only(chatting()));
  const Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
                     {"temperature", 0},
                     {"max_tokens", 5},
                     {"logprobs", true},
                     {"top_logprobs", 3}};
  const Answer answer = server.post("/v1/chat/completions", body);
  const Json& content = answer.json["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 5u) << answer.text;
  std::vector<std::int64_t> ids = model.tokenizer().encode("user: Hi\nassistant: ").ids;
  std::string text;
  for (const Json& token : content) {
    const auto size = static_cast<std::int64_t>(ids.size());
    const Tensor logits = model.model().forward({{"input_ids", Tensor::from(ids, {1, size})}}).at("logits");
    const std::vector<float> numbers = logits.to_vector<float>();
    const std::size_t width = numbers.size() / ids.size();
    double sum = 0, largest = -1e9;
    for (std::size_t i = numbers.size() - width; i < numbers.size(); ++i) {
      sum += std::exp(static_cast<double>(numbers[i]));
      largest = std::max(largest, static_cast<double>(numbers[i]));
    }
    EXPECT_NEAR(token["logprob"].get<double>(), largest - std::log(sum), 1e-4);
    ASSERT_EQ(token["top_logprobs"].size(), 3u);
    EXPECT_EQ(token["top_logprobs"][0]["token"], token["token"]);
    EXPECT_GE(token["top_logprobs"][0]["logprob"], token["top_logprobs"][1]["logprob"]);
    EXPECT_EQ(token["bytes"].size(), token["token"].get<std::string>().size());
    text += token["token"];
    ids.push_back(model.tokenizer().encode(token["token"].get<std::string>()).ids.front());
  }
  EXPECT_EQ(text, answer.json["choices"][0]["message"]["content"]);
  const Answer columns = server.post("/v1/completions", completion({{"logprobs", 2}, {"max_tokens", 4}}));
  EXPECT_EQ(columns.json["choices"][0]["logprobs"]["tokens"].size(), 4u) << columns.text;
  EXPECT_EQ(columns.json["choices"][0]["logprobs"]["text_offset"], Json::array({0, 1, 2, 3}));
}

TEST(OpenAi, BiasesAndPenaltiesChangeTheTokens) {
  const serve::ServedModel model = shakespeare();
  Asking server(only(shakespeare()));
  const std::int64_t id = model.tokenizer().encode("z").ids.front();
  const Answer biased = server.post(
      "/v1/completions", completion({{"logit_bias", {{std::to_string(id), 100}}}, {"max_tokens", 6}}));
  EXPECT_EQ(biased.json["choices"][0]["text"], "zzzzzz");
  const Answer penalized = server.post(
      "/v1/completions",
      completion(
          {{"logit_bias", {{std::to_string(id), 30}}}, {"max_tokens", 200}, {"frequency_penalty", 2}}));
  const std::string text = penalized.json["choices"][0]["text"];
  const auto count = std::count(text.begin(), text.end(), 'z');
  EXPECT_GT(count, 3);
  EXPECT_LT(count, 100) << "each one is less likely";
}

TEST(OpenAi, EmbeddingsAreThoseOfTei) {
  Asking server(only(served("encoders/bert-mlm")));
  const std::vector<std::string> texts = {"a b c", "x"};
  const Json expected = server.post("/embed", {{"inputs", texts}}).json;
  const Answer answer = server.post("/v1/embeddings", {{"input", texts}});
  EXPECT_EQ(answer.json["object"], "list") << answer.text;
  EXPECT_GT(answer.json["usage"]["prompt_tokens"], 4);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answer.json["data"][i]["embedding"], expected[i]);
    EXPECT_EQ(answer.json["data"][i]["index"], i);
  }
  const Answer packed = server.post("/v1/embeddings", {{"input", texts[0]}, {"encoding_format", "base64"}});
  const std::string bytes = decode_base64(packed.json["data"][0]["embedding"].get<std::string>()).value();
  std::vector<float> numbers(bytes.size() / 4);
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  EXPECT_EQ(numbers, expected[0].get<std::vector<float>>());
  const Answer cut = server.post("/v1/embeddings", {{"input", texts[0]}, {"dimensions", 4}});
  double squares = 0;
  for (const Json& x : cut.json["data"][0]["embedding"]) squares += x.get<double>() * x.get<double>();
  EXPECT_NEAR(squares, 1, 1e-6);
}

TEST(OpenAi, AnswersHaveTheFormAskedFor) {
  Asking server(only(chatting()));
  const Json body = {{"messages", {{{"role", "user"}, {"content", "Where is he?"}}}},
                     {"temperature", 1},
                     {"seed", 3},
                     {"presence_penalty", 0.5}};
  const auto content = [&](const Json& more) {
    Json all = body;
    all.update(more);
    const Json whole = server.post("/v1/chat/completions", all).json["choices"][0];
    all["stream"] = true;
    EXPECT_EQ(text_of(server.post("/v1/chat/completions", all).events()), whole["message"]["content"]);
    EXPECT_EQ(whole["finish_reason"], "stop");
    return whole["message"]["content"].get<std::string>();
  };
  const Json schema = Json::parse(
      R"({"type": "object", "properties": {"place": {"enum": ["here", "there"]}, "sure": {"type": "boolean"}},
          "required": ["place", "sure"], "additionalProperties": false})");
  for (const Json& form :
       {Json{{"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", schema}}}}}},
        Json{{"response_format", {{"type", "json_object"}, {"schema", schema}}}},
        Json{{"guided_json", schema}}, Json{{"json_schema", schema}},
        Json{{"guided_json", json_text(schema)}}, Json{{"structured_outputs", {{"json", schema}}}}}) {
    const Json value = Json::parse(content(form));
    EXPECT_THAT(value["place"].get<std::string>(), testing::AnyOf("here", "there"));
    EXPECT_EQ(value.size(), 2u);
    EXPECT_TRUE(value["sure"].is_boolean());
  }
  EXPECT_THAT(content({{"guided_choice", {"yes", "no"}}}), testing::AnyOf("yes", "no"));
  EXPECT_THAT(content({{"guided_regex", "[a-f]{3}-[xyz]"}}), testing::MatchesRegex("[a-f][a-f][a-f]-[xyz]"));
  EXPECT_THAT(content({{"structured_outputs", {{"choice", {"yes", "no"}}}}}), testing::AnyOf("yes", "no"));
  EXPECT_THAT(content({{"structured_outputs", {{"regex", "[xyz]{2}"}}}}),
              testing::MatchesRegex("[xyz][xyz]"));
}

TEST(OpenAi, EchoesHaveTheLogProbabilitiesOfThePrompt) {
  const serve::ServedModel model = shakespeare();
  Asking server(only(shakespeare()));
  const std::vector<std::int64_t> ids = model.tokenizer().encode(kPrompt).ids;
  const std::int64_t count = std::ssize(ids);
  const Tensor logits = model.model().forward({{"input_ids", Tensor::from(ids, {1, count})}}).at("logits");
  const std::vector<float> numbers = logits.to_vector<float>();
  const std::size_t width = numbers.size() / ids.size();
  const auto log_prob = [&](std::size_t position, std::int64_t id) {
    double sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += std::exp(double{numbers[position * width + i]});
    return double{numbers[position * width + static_cast<std::size_t>(id)]} - std::log(sum);
  };
  const Json scored = {{"echo", true}, {"logprobs", 2}, {"max_tokens", 0}};
  const Json choice = server.post("/v1/completions", completion(scored)).json["choices"][0];
  EXPECT_EQ(choice["text"], kPrompt) << choice;
  EXPECT_EQ(choice["finish_reason"], "length");
  const Json& columns = choice["logprobs"];
  for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
    ASSERT_EQ(columns[name].size(), ids.size()) << name;
  EXPECT_TRUE(columns["token_logprobs"][0].is_null());
  EXPECT_TRUE(columns["top_logprobs"][0].is_null());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::string token = columns["tokens"][i];
    EXPECT_EQ(token, kPrompt.substr(i, 1));
    EXPECT_EQ(columns["text_offset"][i], i);
    if (i == 0) continue;
    EXPECT_NEAR(columns["token_logprobs"][i].get<double>(), log_prob(i - 1, ids[i]), 1e-5);
    const Json& top = columns["top_logprobs"][i];
    EXPECT_EQ(top[token], columns["token_logprobs"][i]);
    EXPECT_GE(top.size(), 2u);
    EXPECT_LE(top.size(), 3u) << "two, and the token itself";
  }
  // Before new tokens, whole or streamed, and the same for ids.
  Json more = scored;
  more["max_tokens"] = 5;
  const Json whole = server.post("/v1/completions", completion(more)).json;
  EXPECT_EQ(whole["usage"]["completion_tokens"], 5);
  const Json& all = whole["choices"][0]["logprobs"];
  ASSERT_EQ(all["tokens"].size(), ids.size() + 5);
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(all["token_logprobs"][i], columns["token_logprobs"][i]);
  EXPECT_EQ(all["text_offset"].back(), ids.size() + 4);
  more["prompt"] = ids;
  EXPECT_EQ(server.post("/v1/completions", completion(more)).json["choices"], whole["choices"]);
  more["stream"] = true;
  Json joined = {{"tokens", Json::array()}, {"text_offset", Json::array()}};
  const std::vector<Json> events = server.post("/v1/completions", completion(more)).events();
  for (const Json& event : events) {
    for (auto& [name, column] : joined.items()) {
      if (!event["choices"][0]["logprobs"].is_null())
        column.insert(column.end(), event["choices"][0]["logprobs"][name].begin(),
                      event["choices"][0]["logprobs"][name].end());
    }
  }
  EXPECT_EQ(text_of(events), whole["choices"][0]["text"]);
  for (const auto& [name, column] : joined.items()) EXPECT_EQ(column, all[name]) << name;
  // Several prompts and choices, each scored, beside others that are not.
  more["stream"] = false;
  more["prompt"] = {kPrompt, "ROMEO: O"};
  more["n"] = 2;
  const Json several = server.post("/v1/completions", completion(more)).json["choices"];
  ASSERT_EQ(several.size(), 4u);
  EXPECT_EQ(several[1]["logprobs"], all);
  EXPECT_EQ(several[3]["logprobs"]["tokens"].size(), 8u + 5u);
  const Json plain = server.post("/v1/completions", completion({{"echo", true}, {"max_tokens", 0}})).json;
  EXPECT_EQ(plain["choices"][0]["text"], kPrompt);
  EXPECT_EQ(plain["usage"]["completion_tokens"], 0);
}

// Two of its tokens are bytes: of \u00e9 together.
serve::ServedModel with_bytes() {
  const TemporaryFolder folder;
  std::filesystem::copy(std::filesystem::path(HEED_FIXTURES) / "../../models/shakespeare", folder.path(),
                        std::filesystem::copy_options::recursive);
  std::ifstream in(folder.path() / "tokenizer.json");
  Json tokenizer = Json::parse(in);
  Json& vocabulary = tokenizer["model"]["vocab"];
  for (const auto& [rare, byte] : {std::pair("$", "<0xC3>"), {"&", "<0xA9>"}}) {
    vocabulary[byte] = vocabulary[rare];
    vocabulary.erase(rare);
  }
  tokenizer["decoder"] =
      Json::parse(R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]})");
  std::ofstream(folder.path() / "tokenizer.json") << tokenizer;
  return serve::serve_model("bytes", load(folder.path().string()));
}

TEST(OpenAi, TokensThatArePartsOfCharactersAreBytes) {
  Asking server(only(with_bytes()));
  Json body = completion({{"prompt", {13, 3, 4, 14}}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 0}});
  const Json choice = server.post("/v1/completions", body).json["choices"][0];
  EXPECT_EQ(choice["text"], "A\u00e9B") << choice;
  EXPECT_EQ(choice["logprobs"]["tokens"], (Json{"A", "bytes:\\xc3", "bytes:\\xa9", "B"}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], (Json{0, 1, 1, 2})) << "characters";
  body["return_tokens_as_token_ids"] = true;
  EXPECT_EQ(server.post("/v1/completions", body).json["choices"][0]["logprobs"]["tokens"],
            (Json{"token_id:13", "token_id:3", "token_id:4", "token_id:14"}));
}

TEST(OpenAi, TheLikeliestOfSeveralCandidatesIsTheAnswer) {
  Asking server(only(shakespeare()));
  const Json sampled = {{"temperature", 1.5}, {"seed", 5}, {"n", 6}, {"logprobs", 0}, {"max_tokens", 8}};
  const Json all = server.post("/v1/completions", completion(sampled)).json["choices"];
  std::vector<std::pair<double, std::string>> order;
  for (const Json& choice : all) {
    double sum = 0;
    for (const Json& logprob : choice["logprobs"]["token_logprobs"]) sum -= logprob.get<double>();
    order.emplace_back(sum, choice["text"]);
  }
  std::sort(order.begin(), order.end());
  Json best = sampled;
  best["n"] = 2;
  best["best_of"] = 6;
  const Json answer = server.post("/v1/completions", completion(best)).json;
  ASSERT_EQ(answer["choices"].size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answer["choices"][i]["text"], order[i].second);
    EXPECT_EQ(answer["choices"][i]["index"], i);
  }
  EXPECT_EQ(answer["usage"]["completion_tokens"], 48);
}

TEST(OpenAi, AnswersHaveTheLengthsAskedFor) {
  const serve::ServedModel model = shakespeare();
  Asking server(only(shakespeare()));
  const std::string whole =
      server.post("/v1/completions", completion(Json::object())).json["choices"][0]["text"];
  // Nothing ends an answer before min_tokens.
  const Json late =
      server.post("/v1/completions", completion({{"stop", whole.substr(2, 1)}, {"min_tokens", 9}}))
          .json["choices"][0];
  EXPECT_EQ(late["text"].get<std::string>().substr(0, 9), whole.substr(0, 9));
  const std::int64_t id = model.tokenizer().encode(whole.substr(4, 1)).ids.front();
  EXPECT_GE(server.post("/v1/completions", completion({{"stop_token_ids", {id}}, {"min_tokens", 9}}))
                .json["usage"]["completion_tokens"],
            9);
  const std::vector<std::int64_t> ids = model.tokenizer().encode(kPrompt).ids;
  for (const bool left : {true, false}) {
    const Json cut = server
                         .post("/v1/completions", completion({{"truncate_prompt_tokens", 4},
                                                              {"truncation_side", left ? "left" : "right"},
                                                              {"return_token_ids", true}}))
                         .json["choices"][0];
    const std::vector<std::int64_t> kept(left ? ids.end() - 4 : ids.begin(),
                                         left ? ids.end() : ids.begin() + 4);
    EXPECT_EQ(cut["prompt_token_ids"], Json(kept));
    EXPECT_EQ(cut["token_ids"].size(), 30u);
  }
  const std::string longest(300, 'a');
  EXPECT_EQ(server.post("/v1/completions", completion({{"prompt", longest}, {"truncate_prompt_tokens", -1}}))
                .status,
            200);
}

TEST(OpenAi, StreamsTellTheUsageAsTheyGo) {
  Asking server(only(shakespeare()));
  const auto events = [&](bool always) {
    const Json options = {{"include_usage", true}, {"continuous_usage_stats", always}};
    return server.post("/v1/completions", completion({{"stream", true}, {"stream_options", options}}))
        .events();
  };
  int last = 0;
  for (const Json& event : events(true)) {
    EXPECT_GE(event["usage"]["completion_tokens"], last);
    last = event["usage"]["completion_tokens"];
  }
  EXPECT_EQ(last, 30);
  EXPECT_TRUE(events(false).front()["usage"].is_null());
}

// What a client asked for and does not wait for ends with its prompts in the queue.
TEST(OpenAi, ManyAnswersAreLimitedAndEndWithTheirClient) {
  Asking server(only(shakespeare()));
  const auto asked = [](std::size_t prompts) {
    return Json{{"prompt", std::vector<std::string>(prompts, "a")}, {"n", 64}, {"max_tokens", 20}};
  };
  EXPECT_EQ(server.post("/v1/completions", asked(65)).status, 413);
  const auto left = server.begin(request_of("POST", "/v1/completions", json_text(asked(64))));
  left->leave();
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 2}}).status, 200);
  EXPECT_NE(left->response().status, 200);
}

TEST(OpenAi, WrongRequestsAreRefused) {
  Asking server(only(chatting()));
  const Json message = {{"role", "user"}, {"content", "a"}};
  const std::string longest(300, 'a');
  struct Case {
    const char* path;
    Json body;
    const char* param;
  };
  const char *chat = "/v1/chat/completions", *complete = "/v1/completions";
  for (const Case& one : std::vector<Case>{
           {chat, Json::object(), "messages"},
           {chat, {{"messages", Json::array()}}, "messages"},
           {chat, {{"messages", "a"}}, "messages"},
           {chat, {{"messages", {1}}}, "messages"},
           {chat, {{"messages", {{{"content", "a"}}}}}, "messages"},
           {chat, {{"messages", {{{"role", 5}, {"content", "a"}}}}}, "messages"},
           {chat, {{"messages", {{{"role", "user"}, {"content", 5}}}}}, "messages"},
           {chat, {{"messages", {{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}}}, "messages"},
           {chat, {{"messages", {message}}, {"response_format", {{"type", "yaml"}}}}, "response_format.type"},
           {chat,
            {{"messages", {message}}, {"response_format", {{"type", "json_schema"}}}},
            "response_format"},
           {chat,
            {{"messages", {message}},
             {"response_format",
              {{"type", "json_schema"}, {"json_schema", {{"schema", {{"type", "tuple"}}}}}}}},
            "response_format"},
           {complete, {{"prompt", "a"}, {"guided_regex", "("}}, "guided_regex"},
           {chat,
            {{"messages", {message}}, {"tools", {{{"type", "function"}}}}, {"tool_choice", "some"}},
            "tool_choice"},
           {chat, {{"messages", {message}}, {"top_logprobs", 2}}, "top_logprobs"},
           {chat,
            {{"messages", {message}}, {"continue_final_message", true}, {"add_generation_prompt", true}},
            "messages"},
           {chat, {{"messages", {message}}, {"guided_regex", "é"}}, "guided_regex"},
           {chat, {{"messages", {{{"role", "user"}, {"content", longest}}}}}, "messages"},
           {chat, {{"messages", {message, {{"role", "assistant"}}}}}, "messages"},
           {chat, {{"messages", {{{"role", "narrator"}, {"content", "a"}}}}}, "messages"},
           {complete, Json::object(), "prompt"},
           {complete, {{"prompt", ""}}, "prompt"},
           {complete, {{"prompt", Json::array()}}, "prompt"},
           {complete, {{"prompt", {1, "a"}}}, "prompt"},
           {complete, {{"prompt", {1, 1000}}}, "prompt"},
           {complete, {{"prompt", {-1}}}, "prompt"},
           {complete, {{"prompt", longest}}, "prompt"},
           {complete, {{"prompt", "a"}, {"max_tokens", -2}}, "max_tokens"},
           {chat, {{"messages", {message}}, {"max_tokens", 0}}, "max_tokens"},
           {chat, {{"messages", {message}}, {"chat_template", "{{ 1 }}"}}, "chat_template"},
           {complete, {{"prompt", "a"}, {"min_tokens", 17}}, "min_tokens"},
           {complete, {{"prompt", "a"}, {"n", 3}, {"best_of", 2}}, "best_of"},
           {complete, {{"prompt", "a"}, {"best_of", 2}, {"stream", true}}, "best_of"},
           {complete, {{"prompt", "a"}, {"stream_options", {{"include_usage", true}}}}, "stream_options"},
           {complete, {{"prompt", "a"}, {"truncate_prompt_tokens", 0}}, "truncate_prompt_tokens"},
           {complete, {{"prompt", "a"}, {"truncation_side", "top"}}, "truncation_side"},
           {complete,
            {{"prompt", "a"}, {"structured_outputs", {{"grammar", "a"}}}},
            "structured_outputs.grammar"},
           {complete,
            {{"prompt", "a"}, {"structured_outputs", {{"regex", "("}}}},
            "structured_outputs.regex"},
           {complete, {{"prompt", "a"}, {"grammar", "root ::= a"}}, "grammar"},
           {complete,
            {{"prompt", "a"}, {"echo", true}, {"logprobs", 1}, {"heed", {{"taps", {"logits"}}}}},
            "heed"},
           {complete, {{"prompt", "a"}, {"temperature", -1}}, "temperature"},
           {complete, {{"prompt", "a"}, {"top_p", 2}}, "top_p"},
           {complete, {{"prompt", "a"}, {"n", 0}}, "n"},
           {complete, {{"prompt", "a"}, {"n", 1.5}}, "n"},
           {complete, {{"prompt", "a"}, {"stop", {""}}}, "stop"},
           {complete, {{"prompt", "a"}, {"logit_bias", {{"x", 1}}}}, "logit_bias"},
           {complete, {{"prompt", "a"}, {"logit_bias", {{"1000", 1}}}}, "logit_bias"},
           {complete, {{"prompt", "a"}, {"logit_bias", {{"5", "x"}}}}, "logit_bias.5"},
           {complete, {{"prompt", "a"}, {"logit_bias", {{"5", 101}}}}, "logit_bias.5"},
           {complete, {{"prompt", "a"}, {"logprobs", 21}}, "logprobs"},
           {complete, {{"prompt", "a"}, {"suffix", "b"}}, "suffix"},
           {complete, {{"prompt", "a"}, {"presence_penalty", 3}}, "presence_penalty"},
           {complete, {{"prompt", "a"}, {"seed", -2}}, "seed"},
           {complete, {{"prompt", "a"}, {"guided_choice", Json::array()}}, "guided_choice"},
           {complete, {{"prompt", "a"}, {"guided_json", "{"}}, "guided_json"},
           {complete, {{"prompt", "a"}, {"guided_json", 5}}, "guided_json"},
           {complete, {{"prompt", "a"}, {"guided_regex", "a"}, {"guided_choice", {"a"}}}, "guided_choice"},
           {complete,
            {{"prompt", "a"},
             {"response_format", {{"type", "json_object"}}},
             {"structured_outputs", {{"regex", "a"}}}},
            "structured_outputs.regex"},
           {complete, {{"prompt", "a"}, {"use_beam_search", true}}, "use_beam_search"},
           {complete, {{"prompt", "a"}, {"prompt_logprobs", 0}}, "prompt_logprobs"},
           {complete, {{"prompt", "a"}, {"bad_words", {"a"}}}, "bad_words"},
           {complete, {{"prompt", "a"}, {"mirostat", 2}}, "mirostat"},
           {complete, {{"prompt", "a"}, {"dry_multiplier", 0.8}}, "dry_multiplier"},
           {complete, {{"prompt", "a"}, {"xtc_probability", 0.5}}, "xtc_probability"},
           {complete, {{"prompt", "a"}, {"dynatemp_range", 0.5}}, "dynatemp_range"},
           {complete, {{"prompt", "a"}, {"lora", {{{"id", 0}, {"scale", 1}}}}}, "lora"},
           {complete, {{"prompt", "a"}, {"n_predict", -2}}, "n_predict"},
           {complete, {{"prompt", "a"}, {"max_output_tokens", 2}}, "max_output_tokens"},
           {complete, {{"prompt", "a"}, {"max_new_tokens", 1.5}}, "max_new_tokens"},
           {chat, {{"messages", {message}}, {"best_of", 2}}, "best_of"},
           {chat, {{"messages", {message}}, {"suffix", "b"}}, "suffix"},
           {complete, {{"prompt", "a"}, {"allowed_token_ids", {1}}}, "allowed_token_ids"},
           {complete, {{"prompt", "a"}, {"chat_template", "x"}}, "chat_template"},
           {chat, {{"messages", {message}}, {"echo", true}}, "echo"},
           {chat, {{"messages", {message}}, {"functions", {{{"name", "find"}}}}}, "functions"},
           {chat, {{"messages", {message}}, {"tool_choice", "required"}}, "tool_choice"},
           {chat, {{"messages", {message}}, {"parallel_tool_calls", "no"}}, "parallel_tool_calls"},
           {chat, {{"messages", {message}}, {"tools", {{{"type", "function"}}}}}, "tools.0.function"},
           {chat,
            {{"messages", {message}}, {"tools", {{{"function", {{"name", "a b"}}}}}}},
            "tools.0.function.name"},
           {chat,
            {{"messages", {message}}, {"tools", {{{"function", {{"description", "a"}}}}}}},
            "tools.0.function.name"}}) {
    const Answer answer = server.post(one.path, one.body);
    EXPECT_EQ(answer.status, 400) << json_text(one.body) << answer.text;
    EXPECT_EQ(answer.json["error"]["param"], one.param) << answer.text;
    EXPECT_EQ(answer.json["error"]["type"], "invalid_request_error") << answer.text;
  }
  for (const Answer& answer : {server.post(complete, {{"prompt", longest}}),
                               server.post("/v1/embeddings", {{"input", longest}, {"truncate", false}})}) {
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.json["error"]["code"], "context_length_exceeded");
    EXPECT_THAT(answer.text, HasSubstr("maximum context length"));
  }
  Json unknown = {
      {"prompt", "a"}, {"user", "me"},     {"nonsense", {1, 2}},       {"best_of", nullptr},
      {"seed", -1},    {"max_tokens", -1}, {"use_beam_search", false}, {"prompt_logprobs", nullptr}};
  EXPECT_EQ(server.post(complete, unknown).status, 200);
  unknown = {{"prompt", "a"},
             {"mirostat", 0},
             {"dry_multiplier", 0.0},
             {"xtc_probability", 0.0},
             {"lora", Json::array()}};
  EXPECT_EQ(server.post(complete, unknown).status, 200);
}

TEST(OpenAi, WordsOfOtherServers) {
  Asking server(only(shakespeare()));
  const auto answer = [&](Json fields) {
    Json body = {{"prompt", "KING: "}, {"seed", 5}, {"model", "shakespeare"}};
    body.update(fields);
    const Answer one = server.post("/v1/completions", body);
    EXPECT_EQ(one.status, 200) << one.text;
    return one.json["choices"][0]["text"].get<std::string>();
  };
  const std::string greedy = answer({{"temperature", 0}, {"max_tokens", 24}});
  ASSERT_EQ(greedy.size(), 24u);
  EXPECT_EQ(answer({{"do_sample", false}, {"n_predict", 24}}), greedy);
  EXPECT_EQ(answer({{"temperature", 0}, {"max_completion_tokens", 24}}), greedy);
  EXPECT_EQ(answer({{"do_sample", false}, {"max_new_tokens", 24}}), greedy);
  EXPECT_EQ(answer({{"temperature", 0}, {"max_tokens", 8}, {"n_predict", 24}}), greedy.substr(0, 8));
  EXPECT_EQ(answer({{"temperature", 0}, {"max_tokens", 24}, {"repeat_penalty", 1.3}}),
            answer({{"temperature", 0}, {"max_tokens", 24}, {"repetition_penalty", 1.3}}));
  const std::string stop = greedy.substr(7, 3);
  const std::size_t found = greedy.find(stop);
  EXPECT_EQ(answer({{"temperature", 0}, {"max_tokens", 24}, {"stop", stop}}), greedy.substr(0, found));
  EXPECT_EQ(
      answer({{"temperature", 0}, {"max_tokens", 24}, {"stop", stop}, {"include_stop_str_in_output", true}}),
      greedy.substr(0, found + 3));
}

TEST(OpenAi, AModelHasAliases) {
  serve::ServedModel model = shakespeare();
  model.aliases = {"gpt-4o", "other"};
  Asking server(only(std::move(model)));
  const Answer answer =
      server.post("/v1/completions", {{"model", "gpt-4o"}, {"prompt", "KING: "}, {"max_tokens", 1}});
  EXPECT_EQ(answer.json["model"], "shakespeare") << answer.text;
  EXPECT_EQ(server.get("/v1/models/other").json["aliases"], Json({"gpt-4o", "other"}));
  EXPECT_EQ(server.post("/v1/completions", {{"model", "gpt-4"}, {"prompt", "KING: "}}).status, 404);
  EXPECT_TRUE(server.get("/version").json["version"].is_string());
}

}  // namespace
}  // namespace heed::serve_test
