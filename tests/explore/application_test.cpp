// Paths, methods and who may ask.
#include "explore/application.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "explore/sample_models.h"

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
  int status(const HttpRequest& request) const { return application.at_once(request).value().status; }

  explore::Explorer explorer = explorer_of(sample_decoder());
  explore::Application application{explorer, "127.0.0.1", "secret"};
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
  const HttpResponse page = application.at_once(get("/")).value();
  EXPECT_EQ(page.status, 403);
  EXPECT_THAT(page.type, HasSubstr("text/html"));
  EXPECT_THAT(page.body, HasSubstr("Open the address that <code>heed explore</code> printed"));
  EXPECT_THAT(page.body, testing::Not(HasSubstr("secret")));
  EXPECT_THAT(page.headers.back().second, testing::StartsWith("default-src 'none'"));
  HttpRequest data = get("/api/models");
  data.token = "";
  EXPECT_THAT(application.at_once(data).value().type, HasSubstr("application/json")) << "programs get JSON";
}

TEST_F(Explored, CountsTokens) {
  const HttpResponse answer =
      application.compute(post("/api/tokens", R"({"model": 0, "text": "5 6 7"})"), kGoOn);
  EXPECT_EQ(answer.body, R"({"ids":[5,6,7]})");
  EXPECT_EQ(status(get("/api/tokens")), 405);
  EXPECT_EQ(application.compute(post("/api/tokens", R"({"model": 1, "text": "5"})"), kGoOn).status, 400);
}

TEST_F(Explored, ThePageRunsItsOwnScriptsOnly) {
  const HttpResponse page = application.at_once(get("/?token=secret")).value();
  EXPECT_THAT(page.type, HasSubstr("text/html"));
  ASSERT_EQ(page.headers.size(), 1u);
  const std::string policy = page.headers[0].second;
  EXPECT_THAT(policy, testing::StartsWith("default-src 'none'; script-src 'nonce-"));
  const std::string nonce = policy.substr(policy.find("nonce-") + 6, 32);
  EXPECT_THAT(page.body, HasSubstr(nonce));
  EXPECT_THAT(page.body, testing::Not(HasSubstr("@NONCE@")));
  EXPECT_NE(application.at_once(get("/?token=secret")).value().headers[0].second, policy);
}

TEST_F(Explored, KnowsItsPathsAndMethods) {
  EXPECT_EQ(status(get("/api/nothing")), 404);
  EXPECT_EQ(status(get("/api/run")), 405);
  EXPECT_EQ(status(post("/api/models", "")), 405);
  const HttpResponse wrong = application.at_once(get("/api/ablation")).value();
  EXPECT_EQ(wrong.headers[0], (std::pair<std::string, std::string>("Allow", "POST")));
  EXPECT_EQ(wrong.body, R"({"error":"method: expected POST"})");
  EXPECT_FALSE(application.at_once(post("/api/run", "")).has_value()) << "which computes";
}

TEST_F(Explored, RunsAndGivesPacks) {
  const HttpResponse response =
      application.compute(post("/api/run", R"({"model": 0, "text": "5 6"})"), kGoOn);
  ASSERT_EQ(response.status, 200);
  const auto answer = nlohmann::json::parse(response.body);
  const std::string run = std::to_string(answer["run"].get<int>());
  const HttpResponse pack = application.at_once(get("/api/pack?run=" + run + "&pack=0")).value();
  EXPECT_EQ(pack.status, 200);
  EXPECT_THAT(pack.type, HasSubstr("text/plain"));
  EXPECT_EQ(pack.body, explorer.pack(answer["run"], 0));
  EXPECT_EQ(status(get("/api/pack?run=99&pack=0")), 404);
  EXPECT_EQ(status(get("/api/pack?run=" + run + "&pack=999")), 404);
  for (const char* query : {"", "?run=1", "?run=a&pack=0", "?run=1&pack=-1", "?run=1x&pack=0",
                            "?run=99999999999999999999&pack=0"})
    EXPECT_EQ(status(get("/api/pack" + std::string(query))), 400) << query;
  const HttpResponse ablation =
      application.compute(post("/api/ablation", R"({"model": 0, "text": "5 6", "id": 3})"), kGoOn);
  EXPECT_EQ(nlohmann::json::parse(ablation.body)["change"].size(), 8u);
}

TEST_F(Explored, FilesAloneMayBeLarge) {
  HttpRequest file = post("/api/file?model=0", "");
  EXPECT_TRUE(application.has_file(file));
  EXPECT_FALSE(application.at_once(file).has_value()) << "which computes";
  EXPECT_FALSE(application.has_file(post("/api/run", "")));
  EXPECT_FALSE(application.has_file(get("/api/file?model=0")));
  EXPECT_EQ(status(get("/api/file?model=0")), 405);
  file.token = "wrong";
  EXPECT_FALSE(application.has_file(file)) << "a stranger gets no memory";
  EXPECT_EQ(status(file), 403);
  const HttpResponse refused = application.compute(post("/api/file", "bytes"), kGoOn);
  EXPECT_EQ(refused.body, R"({"error":"file: expected ?model=N"})");
  EXPECT_EQ(application.compute(post("/api/file?model=0", "bytes"), kGoOn).status, 400);
}

TEST_F(Explored, WrongRequestsGetOneLine) {
  const HttpResponse response = application.compute(post("/api/run", "{"), kGoOn);
  EXPECT_EQ(response.status, 400);
  const std::string message = nlohmann::json::parse(response.body)["error"];
  EXPECT_THAT(message, testing::StartsWith("request: expected "));
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace heed::explore_test
