// Paths, methods and who may ask.
#include "explore/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "explore/sample_models.h"
#include "server/received.h"

namespace heed::explore_test {
namespace {

using server::HttpRequest;
using server::HttpResponse;
using testing::HasSubstr;

class Explored : public testing::Test {
 protected:
  HttpRequest get(const std::string& target) const {
    return {"GET",       target, "127.0.0.1:8717", target.starts_with("/api/") ? "secret" : "", {},
            "127.0.0.1", ""};
  }
  HttpRequest post(const std::string& target, const std::string& body) const {
    HttpRequest request = get(target);
    request.method = "POST";
    request.body = body;
    return request;
  }
  HttpResponse answer(const HttpRequest& request) {
    const auto received = std::make_shared<server_test::Received>();
    application.handle(request, received);
    return received->response();
  }
  int status(const HttpRequest& request) { return answer(request).status; }
  static std::string header(const HttpResponse& response, const std::string& name) {
    for (const auto& [key, value] : response.headers) {
      if (key == name) return value;
    }
    return {};
  }

  explore::Explorer explorer = explorer_of(sample_decoder());
  server::Application application{explore::routes(explorer, "secret"),
                                  explore::application_options("127.0.0.1", "secret")};
};

TEST_F(Explored, RefusesRequestsWithoutTheToken) {
  EXPECT_EQ(status(get("/?token=secret")), 200);
  EXPECT_EQ(status(get("/?a=b&token=secret")), 200);
  for (const char* target : {"/", "/?token=", "/?token=secre", "/?token=secret2", "/?xtoken=secret",
                             "/favicon.ico", "/../etc/passwd"})
    EXPECT_EQ(status(get(target)), 403) << target;
  HttpRequest request = get("/api/models");
  EXPECT_EQ(status(request), 200);
  request.token = "Secret";
  EXPECT_EQ(status(request), 403);
  request.token = "";
  request.target = "/api/models?token=secret";
  EXPECT_EQ(status(request), 403) << "an address alone is not enough: another page can ask for it";
}

TEST_F(Explored, AReaderWithoutTheTokenGetsAPage) {
  const HttpResponse page = answer(get("/"));
  EXPECT_EQ(page.status, 403);
  EXPECT_THAT(page.type, HasSubstr("text/html"));
  EXPECT_THAT(page.body, HasSubstr("Open the address that <code>heed explore</code> printed"));
  EXPECT_THAT(page.body, testing::Not(HasSubstr("secret")));
  EXPECT_THAT(header(page, "Content-Security-Policy"), testing::StartsWith("default-src 'none'"));
  HttpRequest data = get("/api/models");
  data.token = "";
  EXPECT_THAT(answer(data).type, HasSubstr("application/json")) << "programs get JSON";
}

TEST_F(Explored, CountsTokens) {
  const HttpResponse ids = answer(post("/api/tokens", R"({"model": 0, "text": "5 6 7"})"));
  EXPECT_EQ(ids.body, R"({"ids":[5,6,7]})");
  EXPECT_EQ(status(get("/api/tokens")), 405);
  EXPECT_EQ(answer(post("/api/tokens", R"({"model": 1, "text": "5"})")).status, 400);
}

TEST_F(Explored, ThePageRunsItsOwnScriptsOnly) {
  const HttpResponse page = answer(get("/?token=secret"));
  EXPECT_THAT(page.type, HasSubstr("text/html"));
  const std::string policy = header(page, "Content-Security-Policy");
  EXPECT_THAT(policy, testing::StartsWith("default-src 'none'; script-src 'nonce-"));
  const std::string nonce = policy.substr(policy.find("nonce-") + 6, 32);
  EXPECT_THAT(page.body, HasSubstr(nonce));
  EXPECT_THAT(page.body, testing::Not(HasSubstr("@NONCE@")));
  EXPECT_NE(header(answer(get("/?token=secret")), "Content-Security-Policy"), policy);
}

TEST_F(Explored, KnowsItsPathsAndMethods) {
  EXPECT_EQ(status(get("/api/nothing")), 404);
  EXPECT_EQ(status(get("/api/run")), 405);
  EXPECT_EQ(status(post("/api/models", "")), 405);
  const HttpResponse wrong = answer(get("/api/ablation"));
  EXPECT_EQ(header(wrong, "Allow"), "POST, OPTIONS");
  EXPECT_EQ(wrong.body, R"({"error":"method: expected POST"})");
}

TEST_F(Explored, RunsAndGivesPacks) {
  const HttpResponse response = answer(post("/api/run", R"({"model": 0, "text": "5 6"})"));
  ASSERT_EQ(response.status, 200);
  const auto told = nlohmann::json::parse(response.body);
  const std::string run = std::to_string(told["run"].get<int>());
  const HttpResponse pack = answer(get("/api/pack?run=" + run + "&pack=0"));
  EXPECT_EQ(pack.status, 200);
  EXPECT_THAT(pack.type, HasSubstr("text/plain"));
  EXPECT_EQ(pack.body, explorer.chunk(told["run"], 0));
  EXPECT_EQ(status(get("/api/pack?run=99&pack=0")), 404);
  EXPECT_EQ(status(get("/api/pack?run=" + run + "&pack=999")), 404);
  for (const char* query : {"", "?run=1", "?run=a&pack=0", "?run=1&pack=-1", "?run=1x&pack=0",
                            "?run=99999999999999999999&pack=0"})
    EXPECT_EQ(status(get("/api/pack" + std::string(query))), 400) << query;
  const HttpResponse ablation = answer(post("/api/ablation", R"({"model": 0, "text": "5 6", "id": 3})"));
  EXPECT_EQ(nlohmann::json::parse(ablation.body)["change"].size(), 8u);
}

TEST_F(Explored, FilesAloneMayBeLarge) {
  HttpRequest file = post("/api/file?model=0", "");
  EXPECT_EQ(application.body_of(file), server::Body::large);
  EXPECT_EQ(application.body_of(post("/api/run", "")), server::Body::usual);
  EXPECT_EQ(application.body_of(get("/api/file?model=0")), server::Body::none);
  EXPECT_EQ(status(get("/api/file?model=0")), 405);
  file.token = "wrong";
  EXPECT_EQ(application.body_of(file), server::Body::none) << "a stranger gets no memory";
  EXPECT_EQ(status(file), 403);
  const HttpResponse refused = answer(post("/api/file", "bytes"));
  EXPECT_EQ(refused.body, R"({"error":"file: expected ?model=N"})");
  EXPECT_EQ(answer(post("/api/file?model=0", "bytes")).status, 400);
}

TEST_F(Explored, WrongRequestsGetOneLine) {
  const HttpResponse response = answer(post("/api/run", "{"));
  EXPECT_EQ(response.status, 400);
  const std::string message = nlohmann::json::parse(response.body)["error"];
  EXPECT_THAT(message, testing::StartsWith("request: expected "));
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace heed::explore_test
