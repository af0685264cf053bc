// The answer of an application without sockets.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string_view>

#include "server/messages.h"

namespace heed::server_test {

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

}  // namespace heed::server_test
