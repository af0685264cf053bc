// Who may ask.
#include "server/access.h"

#include <gtest/gtest.h>

#include "server/messages.h"

namespace heed::server_test {
namespace {

using server::HttpRequest;

/// The status of the refusal of a request with the token `secret` to 127.0.0.1; 0 for none.
int refused(const HttpRequest& request) {
  try {
    const server::AccessOptions access{.token = "secret", .host = "127.0.0.1", .hosts = {"Models.Example"}};
    server::require_host(request, access);
    server::require_access(request, access, true);
    return 0;
  } catch (const server::ApiError& error) {
    return server::status_of(server::ErrorForm::message, error.code());
  }
}

TEST(Access, RefusesOtherHostsAndOrigins) {
  HttpRequest request{"GET", "/api/models", "127.0.0.1:8717", "secret", {}, "127.0.0.1", ""};
  for (const char* host :
       {"127.0.0.1", "localhost", "localhost:9000", "127.0.0.1:8717", "LOCALHOST:8080", "app.localhost",
        "host.docker.internal:8080", "models.example", "MODELS.EXAMPLE:80"}) {
    request.host = host;
    EXPECT_EQ(refused(request), 0) << host;
  }
  for (const char* host :
       {"", "evil.example", "evil.example:8717", "127.0.0.1.evil.example", "[::1]:8717", "[", ":8717",
        "127.0.0.1:x@evil.example", "127.0.0.1:", "127.0.0.1:80:80", "localhost@evil.example",
        "evillocalhost", "localhost.evil.example", "docker.internal", "a.models.example"}) {
    request.host = host;
    EXPECT_EQ(refused(request), 403) << host;
  }
  request.host = "";
  request.version = 10;
  EXPECT_EQ(refused(request), 0) << "HTTP/1.0 may leave it out";
  request.host = "127.0.0.1:8717";
  request.origin = "http://127.0.0.1:8717";
  EXPECT_EQ(refused(request), 0);
  for (const char* origin :
       {"null", "http://evil.example", "https://127.0.0.1:8717", "http://127.0.0.1:80", ""}) {
    request.origin = origin;
    EXPECT_EQ(refused(request), 403) << origin;
  }
  request = {"GET", "/api/models", "127.0.0.1:8717", "secret", {}, "127.0.0.1", ""};
  request.local_address = "::1";
  for (const char* host : {"[::1]:8717", "[::1]"}) {
    request.host = host;
    EXPECT_EQ(refused(request), 0) << host;
  }
  request.host = "[::1]evil.example";
  EXPECT_EQ(refused(request), 403);
}

TEST(Access, WrongTokensAreRefused) {
  HttpRequest request{"GET", "/api/models", "127.0.0.1:8717", "secret", {}, "127.0.0.1", ""};
  EXPECT_EQ(refused(request), 0);
  for (const char* token : {"", "secre", "secret2", "Secret"}) {
    request.token = token;
    EXPECT_EQ(refused(request), 403) << token;
  }
}

TEST(Access, ReadsWhatIsEscaped) {
  EXPECT_EQ(server::percent_decoded("a%2Fb%2fc"), "a/b/c");
  EXPECT_EQ(server::percent_decoded("%"), "%");
  EXPECT_EQ(server::percent_decoded("%zz%4"), "%zz%4");
}

TEST(Access, ListsOfHeadersAreNamesAlone) {
  for (const char* list : {"content-type", "authorization,x-stainless-os, x-stainless-retry-count"})
    EXPECT_TRUE(server::are_header_names(list)) << list;
  for (const std::string& list : {std::string(), std::string("a\r\nSet-Cookie: b"), std::string("a: b"),
                                  std::string("a\0", 2), std::string("\u00e9"), std::string(5000, 'a')})
    EXPECT_FALSE(server::are_header_names(list)) << list.substr(0, 40);
}

TEST(Access, TokensAreRandom) {
  const std::string token = server::random_token();
  EXPECT_EQ(token.size(), 32u);
  EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(token, server::random_token());
}

}  // namespace
}  // namespace heed::server_test
