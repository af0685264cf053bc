// One request on its way through the server: what answers it, counts it and logs it.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "core/json.h"
#include "server/messages.h"
#include "server/metrics.h"

namespace heed::server {

using Clock = std::chrono::steady_clock;

inline constexpr const char* kEventsType = "text/event-stream";  ///< of server-sent events
double seconds_since(Clock::time_point begin);

/// What the log says of a request besides its status and its time.
struct AccessRecord {
  std::string id;     ///< that its answer has as X-Request-Id
  std::string key;    ///< the name of its key
  std::string error;  ///< name_of() its error
  // Of one for a model.
  std::string model;
  double queue_seconds = 0;
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

/// Where requests are counted, and the lines of their log go.
struct Registry {
  Metrics metrics;
  std::function<void(const std::string& line)> log;  ///< may be empty
};

/// Counts and logs a request that is answered; `route` names it in the metrics.
void note_answer(Registry& registry, const HttpRequest& request, const std::string& route, int status,
                 double seconds, const AccessRecord& record);

/// Logs what is not a request, with the time.
void log_event(const Registry& registry, Json fields);

/// The id of a request: its own, if that is a word of at most 128 characters; else a new one.
std::string id_of(const HttpRequest& request);

/// Answered once, by answer(), fail() or the end of events; what comes after that has no effect.
/// Threads: one at a time, any.
class Call {
 public:
  /// `route` is as for note_answer().
  Call(HttpRequest request, std::shared_ptr<Reply> reply, std::string route, ErrorForm form,
       std::shared_ptr<Registry> registry);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const HttpRequest& request() const { return request_; }
  /// Frees the body of the request, which has been read.
  void drop_body();
  ErrorForm error_form() const { return form_; }
  AccessRecord record;
  std::vector<std::pair<std::string, std::string>> headers;  ///< of its answer
  Clock::time_point deadline = Clock::time_point::max();
  /// Does work later, on a thread for it, as WorkQueue::post(): where answers are compressed. Empty: they are
  /// not.
  std::function<bool(std::function<void()> work, bool is_long)> later;
  std::function<void(const AccessRecord& record)> ended;  ///< called once it is answered; may be empty
  std::shared_ptr<const void> keeps;  ///< what its answer is made of, as long as there is the call

  void answer(HttpResponse response);
  void answer(const Json& body);
  void fail(const ApiError& error);  ///< of events: the last one
  /// What tells an error as the last of named events; empty: the error in its form.
  std::function<Json(const ApiError& error)> failed_event;

  void begin_events();
  void event(const Json& data);
  void named_event(const Json& data);  ///< of its `type`
  void end_events();                   ///< with `[DONE]`
  void end_named_events();             ///< whose last one tells the end

  /// Whether nobody waits for the answer.
  bool is_over() const { return stop(); }
  /// What tells that it is.
  ApiError canceled() const;
  const std::atomic<bool>& stop() const { return reply_->stop(); }
  bool is_late() const { return Clock::now() >= deadline; }
  Metrics& metrics() const { return registry_->metrics; }

 private:
  void close(int status);
  bool answer_compressed(HttpResponse& response);

  HttpRequest request_;
  const std::shared_ptr<Reply> reply_;
  const std::string route_;
  const ErrorForm form_;
  const std::shared_ptr<Registry> registry_;
  const Clock::time_point begin_ = Clock::now();
  std::size_t answered_bytes_ = 0;
  bool events_ = false, closed_ = false;
};

}  // namespace heed::server
