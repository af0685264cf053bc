// One request on its way through the server: what answers it, counts it and logs it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "core/json.h"
#include "serve/api_error.h"
#include "serve/metrics.h"
#include "server/messages.h"

namespace heed::serve {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin);

/// What the log says of a request besides its status and its time.
struct CallFacts {
  std::string model;
  double queue_seconds = 0;
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

/// Where calls are counted, and their lines go.
struct CallBook {
  Metrics metrics;
  std::function<void(const std::string& line)> log;  ///< may be empty
};

/// Answered once, by answer(), fail() or end_events(); what comes after that has no effect.
/// Threads: one at a time, any.
class Call {
 public:
  /// `route` names it in the metrics.
  Call(server::HttpRequest request, std::shared_ptr<server::Reply> reply, std::string route, Api api,
       std::shared_ptr<CallBook> book);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const server::HttpRequest& request() const { return request_; }
  Api api() const { return api_; }
  CallFacts facts;
  std::vector<std::pair<std::string, std::string>> headers;  ///< of its answer
  Clock::time_point deadline = Clock::time_point::max();

  void answer(server::HttpResponse response);
  void answer(const Json& body);
  void fail(const ApiError& error);  ///< of events: the last one

  void begin_events();
  void event(const Json& data);
  void end_events();  ///< with `[DONE]`

  /// Whether nobody waits for the answer.
  bool is_over() const { return stop(); }
  const std::atomic<bool>& stop() const { return reply_->stop(); }
  bool is_late() const { return Clock::now() >= deadline; }
  Metrics& metrics() const { return book_->metrics; }

 private:
  void close(int status);

  const server::HttpRequest request_;
  const std::shared_ptr<server::Reply> reply_;
  const std::string route_;
  const Api api_;
  const std::shared_ptr<CallBook> book_;
  const Clock::time_point begin_ = Clock::now();
  bool events_ = false, closed_ = false;
};

}  // namespace heed::serve
