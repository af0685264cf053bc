// Allowances that grow with time.
#include "server/key_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "server/messages.h"

namespace heed::server {
namespace {

std::int64_t whole_seconds(double seconds) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(seconds)));
}

ApiError used_up(const Key& key, const std::string& what, double seconds) {
  ApiError error(ErrorCode::limited,
                 fmt::format("key {}: expected at most {} (try again later)", key.name, what));
  error.retry_after = whole_seconds(seconds);
  return error;
}

}  // namespace

Key parse_key(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  Key key(word);
  while (words >> word) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string option = word.substr(0, equals), value = word.substr(std::min(equals + 1, word.size()));
    if (option == "name" && !value.empty()) {
      key.name = value;
      continue;
    }
    std::int64_t* limit = option == "requests"              ? &key.limits.requests
                          : option == "requests-per-minute" ? &key.limits.requests_per_minute
                          : option == "tokens-per-minute"   ? &key.limits.tokens_per_minute
                                                            : nullptr;
    const char* end = value.data() + value.size();
    if (limit == nullptr || std::from_chars(value.data(), end, *limit).ptr != end || *limit < 1)
      throw Error(
          "expected name=, requests=, requests-per-minute= or tokens-per-minute= with a number of at least 1 "
          "after the key, got another word");
  }
  return key;
}

void KeyUsage::Allowance::grow(std::int64_t limit, Clock::time_point now) {
  const auto most = static_cast<double>(limit);
  const bool is_first = at == Clock::time_point();
  left = is_first ? most : std::min(most, left + most * std::chrono::duration<double>(now - at).count() / 60);
  at = now;
}

double KeyUsage::Allowance::seconds_to(double amount, std::int64_t limit) const {
  return std::max(0.0, amount - left) * 60 / static_cast<double>(limit);
}

void KeyUsage::begin(const Key& key, Headers& headers, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Use& use = uses_[key.name];
  const KeyLimits& limits = key.limits;
  const auto tell = [&](const char* what, Allowance& allowance, std::int64_t limit) {
    if (limit == 0) return;
    const auto add = [&](const char* name, const std::string& value) {
      headers.emplace_back(fmt::format("x-ratelimit-{}-{}", name, what), value);
    };
    add("limit", std::to_string(limit));
    add("remaining", std::to_string(std::max<std::int64_t>(0, std::llround(std::floor(allowance.left)))));
    add("reset", fmt::format("{}s", std::ceil(allowance.seconds_to(static_cast<double>(limit), limit))));
  };
  if (limits.requests_per_minute > 0) use.requests.grow(limits.requests_per_minute, now);
  if (limits.tokens_per_minute > 0) use.tokens.grow(limits.tokens_per_minute, now);
  const bool too_many = limits.requests > 0 && use.open >= limits.requests;
  const bool too_often = limits.requests_per_minute > 0 && use.requests.left < 1;
  const bool too_long = limits.tokens_per_minute > 0 && use.tokens.left < 1;
  const bool admitted = !too_many && !too_often && !too_long;
  if (admitted) {
    ++use.open;
    use.requests.left -= 1;
  }
  tell("requests", use.requests, limits.requests_per_minute);
  tell("tokens", use.tokens, limits.tokens_per_minute);
  if (too_often)
    throw used_up(key, fmt::format("{} requests a minute", limits.requests_per_minute),
                  use.requests.seconds_to(1, limits.requests_per_minute));
  if (too_long)
    throw used_up(key, fmt::format("{} tokens a minute", limits.tokens_per_minute),
                  use.tokens.seconds_to(1, limits.tokens_per_minute));
  if (too_many) throw used_up(key, fmt::format("{} requests at once", limits.requests), 1);
}

void KeyUsage::end(const std::string& name, std::int64_t tokens) {
  const std::lock_guard lock(mutex_);
  Use& use = uses_[name];
  --use.open;
  use.tokens.left -= static_cast<double>(tokens);
}

}  // namespace heed::server
