// Keys of clients, with names and limits, and what requests with them have used.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace heed::server {

/// 0: no limit.
struct KeyLimits {
  std::int64_t requests = 0;  ///< at once
  std::int64_t requests_per_minute = 0;
  std::int64_t tokens_per_minute = 0;  ///< of prompts and answers together
};

struct Key {
  Key(std::string given) : secret(std::move(given)) {}  // NOLINT: a key is its text
  Key(const char* given) : secret(given) {}             // NOLINT
  std::string secret;
  std::string name = {};  ///< in log and metrics; several keys of one name share its limits
  KeyLimits limits = {};
};

/// A key, and after spaces `name=`, `requests=`, `requests-per-minute=`, `tokens-per-minute=`. Throws Error
/// that says what was expected and tells nothing of the key.
Key parse_key(const std::string& line);

/// Threads: any.
class KeyUsage {
 public:
  using Clock = std::chrono::steady_clock;
  using Headers = std::vector<std::pair<std::string, std::string>>;

  /// Admits a request with a key, until end(). Throws ApiError (429) where the key has no more, with the time
  /// until it has. `headers` get OpenAI's `x-ratelimit-...` either way.
  void begin(const Key& key, Headers& headers, Clock::time_point now = Clock::now());
  /// A request of a key of that name has ended, which had so many tokens.
  void end(const std::string& name, std::int64_t tokens);

 private:
  /// What is left of an amount that grows to its limit within a minute. It is less than nothing where a
  /// request took more than was left.
  struct Allowance {
    double left = 0;
    Clock::time_point at = {};
    void grow(std::int64_t limit, Clock::time_point now);
    double seconds_to(double amount, std::int64_t limit) const;
  };
  struct Use {
    std::int64_t open = 0;
    Allowance requests, tokens;
  };

  std::mutex mutex_;  // of what follows
  std::map<std::string, Use> uses_;
};

}  // namespace heed::server
