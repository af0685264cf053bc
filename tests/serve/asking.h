// The server's application without sockets: requests and answers as values.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "serve/application.h"

namespace heed::serve_test {

/// What a client has got.
class Received : public server::Reply {
 public:
  void answer(server::HttpResponse response) override;
  void begin(server::HttpResponse response, std::string ping) override;
  void write(std::string_view part) override;
  void end() override;
  const std::atomic<bool>& stop() const override { return stop_; }
  bool has_left() const override { return stop_; }

  /// The client goes away.
  void leave() { stop_ = true; }
  /// Waits until the answer is complete.
  const server::HttpResponse& response();
  /// Waits until the answer has begun with this many bytes.
  void await_bytes(std::size_t count);

 private:
  void note(std::string_view part, bool last);

  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  server::HttpResponse response_;
  bool ended_ = false;
};

struct Answer {
  int status = 0;
  std::string text;
  Json json;  // null if it is none
  std::vector<std::pair<std::string, std::string>> headers;
  std::string header(const std::string& name) const;
  /// The data of server-sent events, without `[DONE]`, which must be the last.
  std::vector<Json> events() const;
};

server::HttpRequest request_of(const std::string& method, const std::string& target,
                               const std::string& body = "");

class Asking {
 public:
  explicit Asking(std::vector<serve::ServedModel> models, serve::AccessOptions access = {},
                  serve::SchedulerLimits limits = {});
  ~Asking();
  Answer ask(const server::HttpRequest& request);
  Answer get(const std::string& target) { return ask(request_of("GET", target)); }
  Answer post(const std::string& target, const Json& body) { return post_text(target, json_text(body)); }
  Answer post_text(const std::string& target, const std::string& body) {
    return ask(request_of("POST", target, body));
  }
  std::shared_ptr<Received> begin(const server::HttpRequest& request);
  std::vector<std::string> log();

 private:
  std::mutex mutex_;
  std::vector<std::string> log_;
  std::vector<std::shared_ptr<Received>> begun_;
  serve::Application application_;
};

serve::ServedModel served(const std::string& fixture);
/// A decoder of characters.
serve::ServedModel shakespeare();
/// The same with a template: each message on a line of its own, `role: content`.
/// A model for chats; its template goes on with `more`.
serve::ServedModel chatting(const std::string& more = "");

}  // namespace heed::serve_test
