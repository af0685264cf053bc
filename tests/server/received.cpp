// Waiting for answers.
#include "server/received.h"

#include <gtest/gtest.h>

#include <chrono>

namespace heed::server_test {

using server::HttpResponse;

void Received::note(std::string_view part, bool last) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(ended_) << "an answer after its end";
  response_.body += part;
  ended_ = last;
  changed_.notify_all();
}

void Received::answer(HttpResponse response) {
  {
    const std::lock_guard lock(mutex_);
    response_ = response;
    response_.body.clear();
  }
  note(response.body, true);
}

void Received::begin(HttpResponse response, std::string ping) {
  EXPECT_EQ(ping, ":\n\n");
  const std::lock_guard lock(mutex_);
  response_ = std::move(response);
}

void Received::write(std::string_view part) { note(part, false); }
void Received::end() { note("", true); }

const HttpResponse& Received::response() {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [this] { return ended_; })) << "no answer";
  return response_;
}

void Received::await_bytes(std::size_t count) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60),
                                [&] { return ended_ || response_.body.size() >= count; }));
}

}  // namespace heed::server_test
