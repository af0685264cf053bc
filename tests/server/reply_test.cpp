// Answers that come later, from another thread, and in parts; clients that do not read them or go away; and a
// server that ends with what it has accepted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "server/client.h"
#include "server/http_server.h"

namespace heed::server_test {
namespace {

using server::HttpRequest;
using server::HttpServer;
using server::Reply;
using std::chrono::milliseconds;
using testing::EndsWith;
using testing::HasSubstr;

using Answer = std::function<void(const HttpRequest&, Reply&)>;

/// Answers each request on a thread of its own.
class Answering {
 public:
  Answering(server::ServerLimits limits, Answer answer)
      : answer_(std::move(answer)),
        server(
            {"127.0.0.1", 0, limits, {}},
            [this](HttpRequest request, std::shared_ptr<Reply> reply) {
              const std::lock_guard lock(mutex_);
              threads_.emplace_back([this, request = std::move(request), reply = std::move(reply)]() mutable {
                answer_(request, *reply);
                reply.reset();
                const std::lock_guard counting(mutex_);
                ++answered_;
                changed_.notify_all();
              });
            }),
        network_([this] { server.run(stop); }) {}
  ~Answering() {
    stop = true;
    network_.join();
    for (std::thread& thread : threads_) thread.join();
  }
  /// Waits until `count` answers were given, or given up.
  void await_answered(int count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(10), [&] { return answered_ >= count; }));
  }
  std::uint16_t port() const { return server.port(); }

 private:
  const Answer answer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
  int answered_ = 0;

 public:
  std::atomic<bool> stop{false};
  HttpServer server;

 private:
  std::thread network_;
};

const std::string kGet = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
constexpr const char* kEvents = "text/event-stream";

void sleep(int time) { std::this_thread::sleep_for(milliseconds(time)); }

void await_stop(const Reply& reply) {
  for (int i = 0; i < 2000 && !reply.stop(); ++i) sleep(5);
  EXPECT_TRUE(reply.stop());
}

TEST(Reply, PartsAreChunksOfAConnectionThatStays) {
  Answering served({}, [](const HttpRequest&, Reply& reply) {
    reply.begin({200, "first", kEvents});
    for (const char* part : {"second", "", "a third one of more than 16"}) reply.write(part);
    reply.end();
  });
  const Client client(served.port());
  for (int i = 0; i < 2; ++i) {
    client.send(kGet);
    const std::string answer = client.read_until("\r\n0\r\n\r\n");
    EXPECT_THAT(answer, HasSubstr("Content-Type: text/event-stream\r\n"));
    EXPECT_THAT(answer, HasSubstr("Transfer-Encoding: chunked\r\n"));
    EXPECT_THAT(answer, EndsWith("\r\n\r\n5\r\nfirst\r\n6\r\nsecond\r\n1b\r\na third one of more than "
                                 "16\r\n0\r\n\r\n"));
  }
}

TEST(Reply, ClientsWithoutChunksReadToTheEnd) {
  Answering served({}, [](const HttpRequest&, Reply& reply) {
    reply.begin({200, "first ", kEvents});
    reply.write("second");
    reply.end();
  });
  const Client client(served.port());
  client.send("GET / HTTP/1.0\r\nHost: here\r\nConnection: keep-alive\r\n\r\n");
  const std::string answer = client.read_until("no such end");
  EXPECT_THAT(answer, testing::Not(HasSubstr("chunked")));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nfirst second"));
}

TEST(Reply, SilenceIsFilledWithPings) {
  server::ServerLimits limits;
  limits.ping = milliseconds(50);
  Answering served(limits, [](const HttpRequest&, Reply& reply) {
    reply.begin({200, "", kEvents}, ":\n\n");
    sleep(500);
    reply.write("data");
    reply.end();
  });
  const Client client(served.port());
  client.send(kGet);
  const std::string answer = client.read_until("\r\n0\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("\r\n\r\n3\r\n:\n\n\r\n3\r\n:\n\n\r\n"));
  EXPECT_THAT(answer, EndsWith("4\r\ndata\r\n0\r\n\r\n"));
}

TEST(Reply, WithoutAnAnswerItIsAnError) {
  Answering served({}, [](const HttpRequest&, const Reply&) {});
  EXPECT_EQ(status_of(Client(served.port()).ask(kGet)), 500);
}

TEST(Reply, AClientThatDoesNotReadIsDropped) {
  server::ServerLimits limits;
  limits.unsent_bytes = 1 << 20;
  Answering served(limits, [](const HttpRequest&, Reply& reply) {
    reply.begin({200, "", kEvents});
    const std::string part(1 << 16, 'a');
    for (int i = 0; i < 10'000 && !reply.stop(); ++i) reply.write(part);
    EXPECT_TRUE(reply.stop() && reply.has_left()) << "600 MB were taken";
  });
  const Client client(served.port());
  client.send(kGet);
  served.await_answered(1);
}

TEST(Reply, ALargePartIsSent) {
  server::ServerLimits limits;
  limits.unsent_bytes = 1 << 16;
  Answering served(limits, [](const HttpRequest&, Reply& reply) {
    reply.begin({200, "", kEvents});
    reply.write(std::string(3 << 20, 'a'));
    reply.write("last");
    reply.end();
  });
  const Client client(served.port());
  client.send(kGet);
  EXPECT_NE(client.read_until("\r\n0\r\n\r\n").find("last"), std::string::npos);
}

TEST(Reply, AClientThatStopsReadingIsDropped) {
  server::ServerLimits limits;
  limits.write = milliseconds(200);
  limits.unsent_bytes = std::size_t{64} << 20;
  Answering served(limits, [](const HttpRequest&, Reply& reply) {
    reply.begin({200, std::string(std::size_t{32} << 20, 'a'), kEvents});
    await_stop(reply);
  });
  const Client client(served.port());
  client.send(kGet);
  served.await_answered(1);
}

TEST(Reply, AClientMayGoAtAnyByte) {
  Answering served({}, [](const HttpRequest&, Reply& reply) {
    reply.begin({200, "first", kEvents});
    for (int i = 0; i < 20 && !reply.stop(); ++i) {
      reply.write("more");
      sleep(1);
    }
    reply.end();
  });
  const std::string request = "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\nbody";
  for (std::size_t bytes = 0; bytes <= request.size(); ++bytes)
    Client(served.port()).send(std::string_view(request).substr(0, bytes));
  for (std::size_t read = 0; read < 400; read += 7) {
    const Client client(served.port());
    client.send(request);
    for (std::size_t i = 0; i < read && !client.is_closed(); ++i) {
    }
  }
  const Client client(served.port());
  client.send(request);
  EXPECT_THAT(client.read_until("\r\n0\r\n\r\n"), HasSubstr("first"));
}

TEST(Reply, ItIsKnownThatTheClientHasGone) {
  Answering served({}, [](const HttpRequest&, Reply& reply) {
    reply.begin({200, "first", kEvents});
    await_stop(reply);
    EXPECT_TRUE(reply.has_left());
  });
  {
    const Client client(served.port());
    client.send(kGet);
    client.read_until("first");
  }
  served.await_answered(1);
}

TEST(Reply, BodiesAreAskedFor) {
  Answering served({}, [](const HttpRequest& request, Reply& reply) { reply.answer({200, request.body}); });
  const Client client(served.port());
  client.send("POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_THAT(client.ask("body"), EndsWith("\r\n\r\nbody"));
}

TEST(Reply, HeadersOfRequestsAreKnown) {
  Answering served({}, [](const HttpRequest& request, Reply& reply) {
    reply.answer({200, request.authorization + "," + request.content_type + "," + request.accept});
  });
  EXPECT_THAT(Client(served.port())
                  .ask("GET / HTTP/1.1\r\nHost: here\r\nauthorization: Bearer a\r\nContent-Type: b\r\n"
                       "Accept: c\r\n\r\n"),
              EndsWith("Bearer a,b,c"));
}

TEST(Reply, WhatWasAcceptedIsAnsweredBeforeTheEnd) {
  server::ServerLimits limits;
  limits.drain = std::chrono::seconds(20);
  std::atomic<bool> go{false};
  Answering served(limits, [&](const HttpRequest& request, Reply& reply) {
    if (request.stopping) return reply.answer(server::error_response(503, "the server stops"));
    reply.begin({200, "first", kEvents});
    while (!go && !reply.stop()) sleep(1);
    EXPECT_FALSE(reply.stop());
    reply.write("last");
    reply.end();
  });
  const Client client(served.port()), idle(served.port());
  client.send(kGet);
  EXPECT_THAT(client.read_until("first"), EndsWith("first"));
  served.stop = true;
  sleep(200);
  EXPECT_EQ(status_of(Client(served.port()).ask(kGet)), 503);
  const std::string refused = idle.ask(kGet);
  EXPECT_EQ(status_of(refused), 503);
  EXPECT_THAT(refused, HasSubstr("Connection: close"));
  go = true;
  EXPECT_THAT(client.read_until("\r\n0\r\n\r\n"), EndsWith("4\r\nlast\r\n0\r\n\r\n"));
  EXPECT_TRUE(client.is_closed());
}

TEST(Reply, TheEndDoesNotWaitForever) {
  server::ServerLimits limits;
  limits.drain = milliseconds(100);
  Answering served(limits, [](const HttpRequest&, Reply& reply) {
    await_stop(reply);
    EXPECT_FALSE(reply.has_left());
    reply.answer(server::error_response(503, "too late"));
  });
  const Client client(served.port());
  client.send(kGet);
  sleep(100);
  served.stop = true;
  EXPECT_EQ(status_of(client.answer()), 503);
}

}  // namespace
}  // namespace heed::server_test
