// Who may ask, wrong requests of every route, the queue, and requests that end early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "serve/asking.h"
#include "server/inflated.h"

namespace heed::serve_test {
namespace {

using server::HttpRequest;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<serve::ServedModel> one(serve::ServedModel model) {
  std::vector<serve::ServedModel> models;
  models.push_back(std::move(model));
  return models;
}

std::vector<serve::ServedModel> all_kinds() {
  std::vector<serve::ServedModel> models;
  for (const char* fixture :
       {"encoders/bert-mlm", "encoders/bert-classify", "encoders/xlm-roberta-cross-encoder"})
    models.push_back(served(fixture));
  models.push_back(chatting());
  return models;
}

TEST(Application, TellsThatItIsThere) {
  Asking server(one(shakespeare()));
  for (const char* path : {"/health", "/v1/health", "/ping"}) {
    EXPECT_EQ(server.get(path).status, 200) << path;
    EXPECT_EQ(server.get(path).text, R"({"status":"ok"})");
  }
  HttpRequest late = request_of("GET", "/health");
  late.stopping = true;
  EXPECT_EQ(server.ask(late).status, 503);
  late.target = "/v1/models";
  const Answer refused = server.ask(late);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.json["error"]["type"], "unavailable_error");
  EXPECT_EQ(server.ask(request_of("HEAD", "/health")).status, 200);
}

TEST(Application, KeysAreAskedFor) {
  Asking server(one(shakespeare()), {.keys = {"first", "second"}});
  EXPECT_EQ(server.get("/health").status, 200) << "public";
  HttpRequest request = request_of("GET", "/v1/models");
  for (const char* wrong :
       {"", "first", "Bearer ", "Bearer firs", "Bearer firsts", "Bearerfirst", "Basic first"}) {
    request.authorization = wrong;
    const Answer answer = server.ask(request);
    EXPECT_EQ(answer.status, 401) << wrong;
    EXPECT_EQ(answer.json["error"]["code"], "invalid_api_key");
    EXPECT_EQ(answer.header("WWW-Authenticate"), "Bearer");
  }
  for (const char* right : {"Bearer first", "Bearer second", "bearer first", "BEARER second"}) {
    request.authorization = right;
    EXPECT_EQ(server.ask(request).status, 200) << right;
  }
}

TEST(Application, OtherNamesAndPagesAreRefused) {
  Asking server(one(shakespeare()), {.host = "127.0.0.1"});
  HttpRequest request = request_of("GET", "/v1/models");
  for (const char* host : {"localhost:8080", "127.0.0.1"}) {
    request.host = host;
    EXPECT_EQ(server.ask(request).status, 200) << host;
  }
  for (const char* host : {"evil.example:8080", "", "127.0.0.1.evil.example"}) {
    request.host = host;
    EXPECT_EQ(server.ask(request).status, 403) << host;
  }
  request.host = "localhost:8080";
  request.origin = "http://localhost:8080";
  EXPECT_EQ(server.ask(request).status, 200);
  request.origin = "https://evil.example";
  const Answer refused = server.ask(request);
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(refused.header("Access-Control-Allow-Origin"), "");
}

TEST(Application, PagesOfListedOriginsMayAsk) {
  Asking server(one(shakespeare()), {.keys = {"key"}, .origins = {"https://page.example"}});
  HttpRequest request = request_of("OPTIONS", "/v1/chat/completions");
  request.origin = "https://page.example";
  const Answer preflight = server.ask(request);
  EXPECT_EQ(preflight.status, 204) << "without a key, as browsers ask";
  EXPECT_EQ(preflight.header("Access-Control-Allow-Origin"), "https://page.example");
  EXPECT_EQ(preflight.header("Access-Control-Allow-Methods"), "POST");
  EXPECT_EQ(preflight.header("Access-Control-Allow-Headers"), "Authorization, Content-Type");
  const std::string asked = "authorization,content-type,x-stainless-os";
  request.asked_headers = asked;
  EXPECT_EQ(server.ask(request).header("Access-Control-Allow-Headers"), asked);
  request.asked_headers = "a\r\nSet-Cookie: b";
  EXPECT_EQ(server.ask(request).header("Access-Control-Allow-Headers"), "Authorization, Content-Type");
  request = request_of("GET", "/v1/models");
  request.origin = "https://page.example";
  EXPECT_EQ(server.ask(request).status, 401);
  request.authorization = "Bearer key";
  EXPECT_EQ(server.ask(request).header("Access-Control-Allow-Origin"), "https://page.example");
  request.origin = "https://other.example";
  EXPECT_EQ(server.ask(request).status, 403);
  Asking open(one(shakespeare()), {.origins = {"*"}});
  request.origin = "null";
  EXPECT_EQ(open.ask(request).header("Access-Control-Allow-Origin"), "*");
}

TEST(Application, TellsWhatThereIs) {
  const Json overview = Asking(all_kinds()).get("/").json;
  EXPECT_EQ(overview["models"].size(), 4u);
  EXPECT_THAT(overview["routes"].get<std::vector<std::string>>(),
              testing::Contains("POST /v1/chat/completions"));
  EXPECT_THAT(overview["documentation"].get<std::string>(), HasSubstr("/openapi.json"));
}

TEST(Application, BodiesAreNotCompressed) {
  Asking server(one(shakespeare()));
  HttpRequest request = request_of("POST", "/v1/completions", R"({"prompt": "a", "max_tokens": 1})");
  for (const auto& [coding, status] : {std::pair("", 200), {"Identity", 200}, {"gzip", 415}}) {
    request.content_encoding = coding;
    const Answer answer = server.ask(request);
    EXPECT_EQ(answer.status, status) << answer.text;
  }
  EXPECT_THAT(server.ask(request).text, HasSubstr("got \\\"gzip\\\""));
}

TEST(Application, WhatIsNotReadIsAnErrorInTheFormOfItsRoute) {
  Asking server(one(shakespeare()));
  const auto body = [&](const char* target) {
    const server::HttpResponse response =
        server.application().refuse(413, "too much", request_of("POST", target));
    EXPECT_EQ(response.status, 413);
    return Json::parse(response.body);
  };
  EXPECT_EQ(body("/v1/chat/completions?x")["error"]["message"], "too much");
  EXPECT_EQ(body("/v1/chat/completions")["error"]["type"], "invalid_request_error");
  EXPECT_EQ(body("/embed"), (Json{{"error", "too much"}, {"error_type", "Validation"}}));
  EXPECT_EQ(body(""), (Json{{"error", "too much"}}));
  const std::vector<std::string> log = server.log();
  ASSERT_EQ(log.size(), 4u);
  EXPECT_EQ(Json::parse(log[2])["path"], "/embed");
  EXPECT_EQ(Json::parse(log[2])["status"], 413);
  EXPECT_THAT(server.get("/metrics").text,
              HasSubstr("heed_requests_total{route=\"/embed\",status=\"413\"} 1\n"));
}

TEST(Application, RoutesByPathAndMethod) {
  Asking server(one(shakespeare()));
  EXPECT_EQ(server.get("/nowhere").status, 404);
  EXPECT_EQ(server.get("/v1/models/none").status, 404);
  const std::string longest(10000, 'x');  // is not repeated whole
  for (const Answer& one : {server.get("/" + longest), server.get("/v1/models/" + longest),
                            server.post("/embed", {{"model", longest}, {"inputs", "a"}})}) {
    EXPECT_EQ(one.status, 404);
    EXPECT_LT(one.text.size(), 300u) << one.text;
  }
  const Answer wrong = server.get("/embed");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("Allow"), "POST, OPTIONS");
  EXPECT_EQ(server.post("/health", {}).status, 405);
  EXPECT_EQ(server.get("/health?x=1").status, 200);
}

// The document has every route, and every field that a route has is read: one of a wrong type is refused.
TEST(Application, DocumentsWhatItReads) {
  std::vector<serve::ServedModel> models = all_kinds();
  models.push_back(served("../../models/en-fr"));
  models.push_back(served("encoders/bert-tag"));
  Asking server(std::move(models));
  const Json document = server.get("/openapi.json").json;
  EXPECT_EQ(document["openapi"], "3.1.0");
  const std::map<std::string, Json> least = {{"messages", {{{"role", "user"}, {"content", "a"}}}},
                                             {"prompt", "a"},
                                             {"input", "a"},
                                             {"inputs", "a"},
                                             {"query", "a"},
                                             {"text", "a"}};
  const std::map<std::string, std::string> only_with = {
      {"texts", ""}, {"documents", ""}, {"ids", ""}, {"tokens", ""}, {"content", ""}};
  for (const server::Route& route : server.application().routes()) {
    const std::vector<server::FieldNote> fields = server::fields_of(route);
    for (const char* path : route.paths) {
      ASSERT_TRUE(document["paths"].contains(path)) << path;
      if (route.is_form) {  // speech_test.cpp has its fields
        const std::string pointer = "/post/requestBody/content/multipart~1form-data/schema/properties";
        EXPECT_EQ(document["paths"][path].at(Json::json_pointer(pointer)).size(), fields.size());
        continue;
      }
      for (const server::FieldNote& field : fields) {
        Json body = Json::object();
        for (const server::FieldNote& other : fields) {
          if (other.rule.required != nullptr) body[other.name] = least.at(other.name);
        }
        const std::string& name = field.name;
        if (std::string(path).find("rerank") != std::string::npos) body["texts"] = Json::array({"a"});
        if (name == "documents" || name == "return_documents") body["documents"] = Json::array({"a"});
        if (std::string(path) == "/similarity")
          body["inputs"] = {{"source_sentence", "a"}, {"sentences", {"a"}}};
        if (std::string(path) == "/tokenize") body[name == "add_special" ? "content" : "inputs"] = "a";
        if (route.paths.front() == std::string("/decode")) body["ids"] = Json::array({1});
        body[name] = field.type == "object" ? Json(5) : Json{{"type", true}};
        if (name == "content" || name == "prompt") body.erase("inputs");
        if (std::string(path).ends_with("completions")) body["model"] = "chatting";
        if (name == "model") body["model"] = 5;
        const Answer answer = server.post(path, body);
        EXPECT_EQ(answer.status, 400) << path << " " << name << " " << answer.text;
        EXPECT_THAT(answer.text, HasSubstr(name)) << path;
      }
    }
  }
}

TEST(Application, AnswersAreCheckedWithItsDocument) {
  const Json schema =
      server::shape_schema(Json::parse(R"({"a": ["number"], "b?": "=x|y", "c?": {"|": ["null", {}]}})"));
  const auto fault = [&](const char* text) { return fault_of(Json::parse(text), schema, {}, "it"); };
  EXPECT_EQ(fault(R"({"a": [1, 0.5], "b": "y", "c": null})"), "");
  EXPECT_EQ(fault(R"({"b": "y"})"), "it: no a");
  EXPECT_EQ(fault(R"({"a": [1, "1"]})"), "it.a[]: another type");
  EXPECT_EQ(fault(R"({"a": [], "b": "z"})"), "it.b: another word");
  EXPECT_EQ(fault(R"({"a": [], "d": 1})"), "it: also d");
  EXPECT_EQ(fault(R"({"a": [], "c": {"d": 1}})"), "it.c: another type; it.c: also d; ");
}

// A name that is one letter off would be without effect, and the answer another one than was asked for.
TEST(Application, MisspelledFieldsAreTold) {
  Asking server(all_kinds());
  Json body = {{"model", "chatting"}, {"prompt", "a"}, {"max_tokens", 1}, {"user", "somebody"}, {"top_a", 1}};
  EXPECT_EQ(server.post("/v1/completions", body).status, 200) << "fields of other servers are ignored";
  body["temprature"] = 0;
  const Answer answer = server.post("/v1/completions", body);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json["error"]["message"],
            "request: temprature: expected a known key (perhaps temperature)");
  EXPECT_EQ(answer.json["error"]["param"], "temprature");
}

TEST(Application, RefusesWhatIsNoJsonObject) {
  Asking server(all_kinds());
  std::string deep, huge = "[0";
  for (int i = 0; i < 100'000; ++i) deep += "[";
  for (int i = 0; i < 100'000; ++i) huge += ",0";
  for (const server::Route& route : server.application().routes()) {
    if (!route.walk) continue;
    const char* path = route.paths.front();
    for (const std::string& body : {std::string(), std::string("{"), std::string("[]"), std::string("null"),
                                    std::string("5"), deep, huge + "]", std::string("{\"inputs\": \"\xff\"}"),
                                    std::string("{\"input\": \"a\", \"input\": \"b\"}"),
                                    std::string("{\"inputs\": NaN}"), std::string("\0", 1)}) {
      const Answer answer = server.post_text(path, body);
      EXPECT_EQ(answer.status, 400) << path << " " << body.substr(0, 40);
      const Json& error = answer.json["error"];
      EXPECT_TRUE(route.errors == server::ErrorForm::tei ? error.is_string() : error["message"].is_string())
          << answer.text;
      EXPECT_LT(answer.text.size(), 500u);
    }
  }
}

TEST(Application, ModelsHaveNames) {
  Asking server(all_kinds());
  const Answer models = server.get("/v1/models");
  EXPECT_EQ(models.json["object"], "list");
  std::vector<std::string> names;
  for (const Json& model : models.json["data"]) names.push_back(model["id"]);
  EXPECT_THAT(names, ElementsAre("bert-mlm", "bert-classify", "xlm-roberta-cross-encoder", "chatting"));
  EXPECT_EQ(server.get("/v1/models/bert-mlm").json["object"], "model");
  EXPECT_EQ(server.get("/v1/models/bert%2Dmlm").json["id"], "bert-mlm");
  const Answer unknown = server.post("/v1/embeddings", {{"model", "gpt-4"}, {"input", "a"}});
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.json["error"]["param"], "model");
  EXPECT_EQ(unknown.json["error"]["code"], "model_not_found");
  EXPECT_EQ(unknown.json["error"]["message"], "model: \"gpt-4\" not found (see /v1/models)");
  Asking reversed([] {
    std::vector<serve::ServedModel> models;
    models.push_back(shakespeare());
    models.push_back(served("encoders/bert-mlm"));
    return models;
  }());
  EXPECT_EQ(reversed.get("/info").json["model_id"], "bert-mlm") << "an encoder first";
  const Answer other = server.post("/v1/completions", {{"model", "bert-mlm"}, {"prompt", "a"}});
  EXPECT_EQ(other.status, 400);
  EXPECT_THAT(other.text, HasSubstr("bert-mlm: expected a model that continues texts, got a bert"));
  EXPECT_THAT(other.text, HasSubstr("(use /v1/embeddings, /embed_sparse, /attend)"));
  const Json& data = models.json["data"];
  EXPECT_EQ(data[0]["max_model_len"], 40);
  EXPECT_EQ(data[0]["capabilities"], (Json{"embedding", "sparse_embedding", "attention"}));
  EXPECT_EQ(data[2]["capabilities"][0], "reranking");
  EXPECT_EQ(data[3]["max_model_len"], 256);
  EXPECT_EQ(data[3]["capabilities"], (Json{"chat", "completion", "embedding", "attention"}));
}

TEST(Application, GgufFilesAreCalledByTheirStems) {
  std::vector<serve::ServedModel> models = one(shakespeare());
  models.front().name = "tiny.q4.gguf";
  Asking server(std::move(models));
  for (const char* name : {"tiny.q4.gguf", "tiny.q4"}) {
    EXPECT_EQ(server.get(std::string("/v1/models/") + name).json["id"], "tiny.q4.gguf");
    EXPECT_EQ(server.post("/tokenize", {{"model", name}, {"inputs", "a"}}).status, 200);
  }
  EXPECT_EQ(server.get("/v1/models/tiny").status, 404);
}

TEST(Application, LongAnswersAreCompressedForWhoTakesThem) {
  server::AccessOptions access;
  access.origins = {"https://pages.example"};
  Asking server(one(served("encoders/bert-mlm")), access);
  const auto asked = [&](const char* path, const std::string& body, const char* coding) {
    HttpRequest request = request_of("POST", path, body);
    request.accept_encoding = coding;
    return server.ask(request);
  };
  const std::string texts = R"({"inputs": ["one text", "another text"]})";
  const Answer plain = asked("/embed_all", texts, "");
  ASSERT_GT(plain.text.size(), 1024u);
  EXPECT_EQ(plain.header("Content-Encoding"), "");
  EXPECT_EQ(plain.header("Vary"), "Accept-Encoding");
  EXPECT_EQ(asked("/embed_all", texts, "gzip;q=0, deflate").text, plain.text);
  HttpRequest request = request_of("POST", "/embed_all", texts);
  request.accept_encoding = "gzip, deflate";
  request.origin = "https://pages.example";
  const auto received = server.begin(request);
  const server::HttpResponse packed = received->response();
  EXPECT_EQ(packed.status, 200);
  EXPECT_LT(packed.body.size(), plain.text.size());
  EXPECT_EQ(server_test::inflated(packed.body), plain.text);
  EXPECT_THAT(packed.headers,
              testing::IsSupersetOf({std::pair<std::string, std::string>("Content-Encoding", "gzip"),
                                     {"Vary", "Origin, Accept-Encoding"}}));
  const Answer little = asked("/v1/embeddings", R"({"input": "a", "dimensions": 2})", "gzip");
  EXPECT_EQ(little.json["data"].size(), 1u) << "below 1 KiB";
  EXPECT_EQ(little.header("Vary"), "");
}

TEST(Application, TooMuchIsRefused) {
  serve::SchedulerLimits limits;
  limits.queue = 2;
  limits.queue_tokens = 300;
  Asking server(one(shakespeare()), {}, limits);
  const HttpRequest endless =
      request_of("POST", "/v1/completions", R"({"prompt": "a", "max_tokens": 250, "stream": true})");
  const auto first = server.begin(endless), second = server.begin(endless);
  first->await_bytes(10);
  second->await_bytes(10);
  const Answer refused = server.post("/v1/completions", {{"prompt", "a"}});
  EXPECT_EQ(refused.status, 429) << refused.text;
  EXPECT_EQ(refused.json["error"]["type"], "rate_limit_error");
  EXPECT_THAT(refused.text, HasSubstr("2 requests are not yet answered, as many as --max-queue lets"));
  EXPECT_GE(std::stoi(refused.header("Retry-After")), 1);
  EXPECT_EQ(server.get("/health").status, 200);
  first->leave();
  second->leave();
  first->response();
  second->response();
  Json texts = Json::array();
  for (int i = 0; i < 301; ++i) texts.push_back("a");
  EXPECT_EQ(server.post("/embed", {{"inputs", texts}}).status, 413);
}

TEST(Application, TooManyTokensAreRefused) {
  serve::SchedulerLimits limits;
  limits.queue_tokens = 30;
  Asking server(one(shakespeare()), {}, limits);
  const auto first = server.begin(
      request_of("POST", "/v1/completions",
                 json_text(Json{{"prompt", std::string(20, 'a')}, {"max_tokens", 230}, {"stream", true}})));
  first->await_bytes(10);
  const Answer refused = server.post("/v1/completions", {{"prompt", std::string(11, 'a')}});
  EXPECT_EQ(refused.status, 429) << refused.text;
  EXPECT_THAT(refused.text, HasSubstr("--max-queue-tokens"));
  first->leave();
  first->response();
}

TEST(Application, WhoGoesAwayIsNotComputedFor) {
  Asking server(one(shakespeare()));
  const auto gone = server.begin(
      request_of("POST", "/v1/completions", R"({"prompt": "a", "max_tokens": 250, "stream": true, "n": 4})"));
  gone->await_bytes(400);
  gone->leave();
  EXPECT_THAT(gone->response().body, HasSubstr("canceled: the client closed its end"));
  const Json line = Json::parse(server.log().back());
  EXPECT_EQ(line["status"], 499);
  EXPECT_GE(line["completion_tokens"].get<int>(), 1) << "those that were computed before";
  const Answer metrics = server.get("/metrics");
  EXPECT_THAT(metrics.text,
              HasSubstr("{route=\"/v1/completions\",model=\"shakespeare\",status=\"499\"} 1\n"));
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "a"}}).status, 200);
}

TEST(Application, LateRequestsEnd) {
  Asking server(one(shakespeare()), {}, {}, 0.0);
  const Answer late = server.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 250}});
  EXPECT_EQ(late.status, 504) << late.text;
}

TEST(Application, EachRequestIsALine) {
  Asking server(one(served("encoders/bert-mlm")));
  server.post("/embed", {{"inputs", {"a b", "c"}}});
  server.get("/nowhere");
  std::vector<Json> lines;
  for (const std::string& line : server.log()) lines.push_back(parse_json(line, "log"));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["path"], "/embed");
  EXPECT_EQ(lines[0]["status"], 200);
  EXPECT_EQ(lines[0]["model"], "bert-mlm");
  EXPECT_GT(lines[0]["prompt_tokens"], 4);
  EXPECT_EQ(lines[1]["status"], 404);
}

}  // namespace
}  // namespace heed::serve_test
