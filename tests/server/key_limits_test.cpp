// Lines of a file of keys, and limits as time goes by.
#include "server/key_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/error.h"
#include "server/messages.h"

namespace heed::server_test {
namespace {

using server::Key;
using server::KeyUsage;
using std::chrono::seconds;

TEST(KeyLimits, AreReadFromALine) {
  const Key plain = server::parse_key("secret  ");
  EXPECT_EQ(plain.secret, "secret");
  EXPECT_EQ(plain.name, "");
  EXPECT_EQ(plain.limits.requests + plain.limits.requests_per_minute + plain.limits.tokens_per_minute, 0);
  const Key key =
      server::parse_key("secret name=alice requests=2 requests-per-minute=60\ttokens-per-minute=9000");
  EXPECT_EQ(key.secret, "secret");
  EXPECT_EQ(key.name, "alice");
  EXPECT_EQ(key.limits.requests, 2);
  EXPECT_EQ(key.limits.requests_per_minute, 60);
  EXPECT_EQ(key.limits.tokens_per_minute, 9000);
  for (const char* line :
       {"secret alice", "secret name=", "secret requests=0", "secret requests=2x", "secret requests",
        "secret requests=-1", "secret tokens-per-minute=99999999999999999999"}) {
    EXPECT_ERROR(server::parse_key(line), "expected name=, requests=");
  }
}

class Used {
 public:
  explicit Used(const std::string& line) : key_(server::parse_key(line)) {}
  /// 0: admitted; else the seconds after which to try again.
  std::int64_t ask(int second) {
    headers.clear();
    try {
      usage_.begin(key_, headers, KeyUsage::Clock::time_point(seconds(1000 + second)));
      return 0;
    } catch (const server::ApiError& error) {
      EXPECT_EQ(error.code(), server::ErrorCode::limited);
      message = error.what();
      return error.retry_after;
    }
  }
  void end(std::int64_t tokens = 0) { usage_.end(key_.name, tokens); }
  KeyUsage::Headers headers;
  std::string message;

 private:
  const Key key_;
  KeyUsage usage_;
};

TEST(KeyLimits, OfRequestsAtOnce) {
  Used used("secret name=alice requests=2");
  EXPECT_EQ(used.ask(0), 0);
  EXPECT_EQ(used.ask(0), 0);
  EXPECT_EQ(used.ask(0), 1);
  EXPECT_EQ(used.message, "key alice: expected at most 2 requests at once (try again later)");
  EXPECT_TRUE(used.headers.empty());
  used.end();
  EXPECT_EQ(used.ask(0), 0);
  EXPECT_EQ(used.ask(0), 1);
}

TEST(KeyLimits, OfRequestsAMinute) {
  Used used("secret requests-per-minute=6");
  for (int i = 5; i >= 0; --i) {
    EXPECT_EQ(used.ask(0), 0);
    used.end();
    EXPECT_THAT(
        used.headers,
        testing::ElementsAre(testing::Pair("x-ratelimit-limit-requests", "6"),
                             testing::Pair("x-ratelimit-remaining-requests", std::to_string(i)),
                             testing::Pair("x-ratelimit-reset-requests", std::to_string(60 - 10 * i) + "s")));
  }
  EXPECT_EQ(used.ask(3), 7) << "one each 10 s";
  EXPECT_EQ(used.ask(10), 0);
  used.end();
  EXPECT_EQ(used.ask(10), 10);
  EXPECT_EQ(used.ask(3600), 0);
  EXPECT_THAT(used.headers, testing::Contains(testing::Pair("x-ratelimit-remaining-requests", "5")))
      << "no more than that";
}

TEST(KeyLimits, OfTokensAMinute) {
  Used used("secret tokens-per-minute=600");
  EXPECT_EQ(used.ask(0), 0);
  used.end(1000);
  EXPECT_EQ(used.ask(0), 41) << "what was taken beyond is owed";
  EXPECT_THAT(used.headers, testing::Contains(testing::Pair("x-ratelimit-remaining-tokens", "0")));
  EXPECT_EQ(used.message.substr(4), ": expected at most 600 tokens a minute (try again later)");
  EXPECT_EQ(used.ask(41), 0);
  EXPECT_THAT(used.headers, testing::Contains(testing::Pair("x-ratelimit-remaining-tokens", "10")));
  EXPECT_THAT(used.headers, testing::Contains(testing::Pair("x-ratelimit-reset-tokens", "59s")));
}

}  // namespace
}  // namespace heed::server_test
