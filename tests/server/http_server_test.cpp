// The server over real sockets: its limits, its order, and what it does when a client goes away or it must
// stop.
#include "server/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "heed/error.h"
#include "reference/error.h"
#include "server/application.h"
#include "server/client.h"

namespace heed::server_test {
namespace {

using server::HttpRequest;
using server::HttpResponse;
using server::HttpServer;
using std::chrono::milliseconds;
using testing::HasSubstr;

/// Answers /quick at once and computes anything else, one after the other: /wait until it is stopped or let
/// go.
class Served {
 public:
  explicit Served(server::ServerLimits limits = {},
                  std::function<server::Body(const HttpRequest&)> body_of = {},
                  std::function<HttpResponse(int, const std::string&, const HttpRequest&)> refuse = {},
                  std::int64_t waiting = 8)
      : application_(routes(), {.errors = server::ErrorForm::message, .queue = waiting}),
        server({"127.0.0.1", 0, limits, std::move(body_of), std::move(refuse)},
               [this](HttpRequest request, std::shared_ptr<server::Reply> reply) {
                 count(read_);
                 application_.handle(std::move(request), std::move(reply));
               }),
        thread_([this] { server.run(stop_); }) {}
  ~Served() { finish(); }

  void finish() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  /// Waits until `count` requests began to wait, or were canceled.
  void await_begun(int count) { await(begun_, count); }
  void await_canceled(int count) { await(canceled_, count); }
  /// Waits until `count` requests were read, so that their connections are not idle.
  void await_read(int count) { await(read_, count); }
  void let_go() { go_ = true; }

 private:
  std::vector<server::Route> routes() {
    const auto route = [this](const char* method, const char* path, bool at_once) {
      server::Route one{method, {path}, server::ErrorForm::message, "tests", "a test"};
      one.at_once = at_once;
      one.answer = [this, at_once](const std::shared_ptr<server::Call>& call, server::Fields&) {
        call->answer(at_once ? quick(call->request()) : compute(call->request(), call->stop()));
      };
      return one;
    };
    return {route("GET", "/quick", true),  route("GET", "/refused", true),   route("GET", "/wait", false),
            route("GET", "/wrong", false), route("POST", "/compute", false), route("GET", "/compute", false)};
  }
  static HttpResponse quick(const HttpRequest& request) {
    if (request.target == "/refused") return server::error_response(403, "refused");
    return {200, request.method + request.host + request.token + request.local_address};
  }
  HttpResponse compute(const HttpRequest& request, const std::atomic<bool>& stop) {
    if (request.target == "/wrong") throw std::runtime_error("a bug");
    if (request.target == "/wait") {
      count(begun_);
      while (!stop && !go_) std::this_thread::sleep_for(milliseconds(1));
      if (stop) {
        count(canceled_);
        throw Canceled();
      }
    }
    return {200, "computed " + request.body};
  }
  void count(int& counter) {
    const std::lock_guard lock(mutex_);
    ++counter;
    changed_.notify_all();
  }
  void await(const int& counter, int wanted) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(10), [&] { return counter >= wanted; }));
  }

  std::atomic<bool> stop_{false}, go_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  int begun_ = 0, canceled_ = 0, read_ = 0;
  server::Application application_;

 public:
  HttpServer server;

 private:
  std::thread thread_;
};

std::string get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: here\r\n\r\n"; }
std::string post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: here\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

TEST(HttpServer, AnswersOnConnectionsThatStay) {
  Served served;
  const Client one(served.server.port()), other(served.server.port());
  EXPECT_TRUE(served.server.is_loopback());
  const std::string answer = one.ask("GET /quick HTTP/1.1\r\nHost: here:1\r\nX-Heed-Token: secret\r\n\r\n");
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_THAT(answer, testing::EndsWith("\r\n\r\nGEThere:1secret127.0.0.1"));
  for (const char* header :
       {"Cache-Control: no-store", "X-Content-Type-Options: nosniff", "Referrer-Policy: no-referrer",
        "Cross-Origin-Opener-Policy: same-origin", "application/json"})
    EXPECT_THAT(answer, HasSubstr(header));
  EXPECT_THAT(answer, testing::Not(HasSubstr("Access-Control")));
  EXPECT_THAT(other.ask(post("/compute", "this")), testing::EndsWith("computed this"));
  EXPECT_THAT(one.ask(post("/compute", "that")), testing::EndsWith("computed that"));
  one.send(post("/compute", "first") + post("/compute", "second"));  // without waiting
  EXPECT_THAT(one.answer(), testing::EndsWith("computed first"));
  EXPECT_THAT(one.answer(), testing::EndsWith("computed second"));
  EXPECT_THAT(
      one.ask("POST /compute HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
      testing::EndsWith("computed abc"));
  EXPECT_EQ(status_of(one.ask(get("/wrong"))), 500);
}

TEST(HttpServer, TellsWhatIsWrongAfterARequestForAHeadAlone) {
  Served served;
  const Client client(served.server.port());
  client.send("HEAD /quick HTTP/1.1\r\nHost: here\r\n\r\n");
  EXPECT_EQ(status_of(client.read_until("\r\n\r\n")), 200);
  EXPECT_THAT(client.ask("not HTTP\r\n\r\n"), HasSubstr("malformed HTTP request"));
}

TEST(HttpServer, RefusesWhatIsMalformedOrTooLarge) {
  server::ServerLimits limits;
  limits.body_bytes = 1000;
  limits.header_bytes = 2000;
  Served served(limits);
  const auto status = [&](const std::string& bytes) {
    const Client client(served.server.port());
    const int found = status_of(client.ask(bytes));
    EXPECT_TRUE(found < 400 || client.is_closed()) << bytes.substr(0, 40);
    return found;
  };
  EXPECT_EQ(status("nonsense\r\n\r\n"), 400);
  EXPECT_THAT(Client(served.server.port()).ask("nonsense\r\n\r\n"), HasSubstr("malformed HTTP request"));
  for (const char* header : {"Host: here", "Origin: here", "X-Heed-Token: secret"}) {
    EXPECT_EQ(status("GET /quick HTTP/1.1\r\n" + std::string(header) + "\r\n" + header + "\r\n\r\n"), 400)
        << header;
  }
  EXPECT_EQ(status("GET / HTTP/9.9\r\n\r\n"), 400);
  EXPECT_EQ(status(std::string("\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", 15)), 400) << "TLS";
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"), 400);
  EXPECT_EQ(status(post("/compute", std::string(1001, 'a'))), 413);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n"), 413);
  EXPECT_EQ(status("GET /" + std::string(3000, 'a') + " HTTP/1.1\r\n\r\n"), 431);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nA: " + std::string(3000, 'a') + "\r\n\r\n"), 431);
  EXPECT_EQ(status(post("/compute", std::string(1000, 'a'))), 200);
}

TEST(HttpServer, WhatIsNotReadIsAnsweredInTheFormOfItsPath) {
  server::ServerLimits limits;
  limits.body_bytes = 1000;
  limits.header_bytes = 2000;
  Served served(limits, {}, [](int status, const std::string& message, const HttpRequest& request) {
    return HttpResponse{status, request.target + "|" + message};
  });
  const auto answer = [&](const std::string& bytes) { return Client(served.server.port()).ask(bytes); };
  EXPECT_THAT(answer(post("/compute?a", std::string(1001, 'a'))),
              testing::EndsWith("/compute?a|request: expected a body of at most 1000 bytes, got 1001"));
  EXPECT_THAT(answer("POST /compute HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3E9\r\n" +
                     std::string(1001, 'a') + "\r\n0\r\n\r\n"),
              testing::EndsWith("/compute|request: expected a body of at most 1000 bytes, got more"));
  EXPECT_THAT(answer("GET /quick HTTP/1.1\r\nA: " + std::string(3000, 'a') + "\r\n\r\n"),
              testing::EndsWith("|request: expected headers of at most 2000 bytes, got more"));
  EXPECT_THAT(answer("nonsense\r\n\r\n"), testing::EndsWith("\r\n\r\n|malformed HTTP request"));
  EXPECT_THAT(answer("GET /quick HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
              testing::EndsWith("/quick|Host: expected one header, got several"));
}

TEST(HttpServer, WhoMayNotAskSendsNoBody) {
  Served served({}, [](const server::HttpRequest& request) {
    return request.token == "secret" ? server::Body::usual : server::Body::none;
  });
  const Client client(served.server.port());
  client.send("POST /compute HTTP/1.1\r\nContent-Length: 100000\r\n\r\nabc");
  EXPECT_THAT(client.answer(), testing::EndsWith("computed ")) << "of its headers alone, at once";
  EXPECT_TRUE(client.is_closed());
  const Client known(served.server.port());
  const std::string request =
      "POST /compute HTTP/1.1\r\nX-Heed-Token: secret\r\nContent-Length: 3\r\n\r\nabc";
  EXPECT_THAT(known.ask(request), testing::EndsWith("computed abc"));
  EXPECT_THAT(known.ask("POST /compute HTTP/1.1\r\nContent-Length: 0\r\n\r\n"),
              testing::EndsWith("computed "));
  EXPECT_EQ(status_of(known.ask(request)), 200) << "there was no body to leave unread";
}

TEST(HttpServer, BodiesTogetherHaveALimit) {
  server::ServerLimits limits;
  limits.body_bytes = 1000;
  limits.bodies_bytes = 1500;
  Served served(limits);
  const auto compute = [&](std::size_t size) {
    return Client(served.server.port()).ask(post("/compute", std::string(size, 'a')));
  };
  const Client first(served.server.port());
  first.send(post("/compute", std::string(900, 'a')).substr(0, 800));  // its body is not whole
  std::string second;
  for (int i = 0; i < 1000 && status_of(second) != 503; ++i) second = compute(1000);  // until that is read
  EXPECT_EQ(status_of(second), 503);
  EXPECT_THAT(second, HasSubstr("Retry-After: 1"));
  EXPECT_EQ(status_of(compute(500)), 200);
  first.send(std::string(200, 'a'));
  EXPECT_EQ(status_of(first.answer()), 200);
  EXPECT_EQ(status_of(compute(1000)), 200) << "there is room again";
}

TEST(HttpServer, LargeBodiesAreForThoseWhoMaySendThem) {
  server::ServerLimits limits;
  limits.body_bytes = 1000;
  limits.large_body_bytes = 5000;
  Served served(limits, [](const server::HttpRequest& request) {
    EXPECT_EQ(request.body, "") << "only the headers are known";
    const bool large = request.token == "secret" && request.target == "/compute";
    return large ? server::Body::large : server::Body::usual;
  });
  const auto status = [&](const std::string& path, const std::string& token, std::size_t size) {
    return status_of(Client(served.server.port())
                         .ask("POST " + path + " HTTP/1.1\r\nX-Heed-Token: " + token +
                              "\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n" +
                              std::string(size, 'a')));
  };
  EXPECT_EQ(status("/compute", "secret", 5000), 200);
  EXPECT_EQ(status("/compute", "secret", 5001), 413);
  EXPECT_EQ(status("/compute", "other", 1000), 200);
  EXPECT_EQ(status("/compute", "other", 1001), 413);
  EXPECT_EQ(status("/wrong", "secret", 1001), 413);
  const std::string chunk = "\r\n\r\n3E9\r\n" + std::string(1001, 'a') + "\r\n0\r\n\r\n";
  for (const auto& [token, expected] : {std::pair("secret", 200), {"other", 413}}) {
    EXPECT_EQ(status_of(Client(served.server.port())
                            .ask("POST /compute HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX-Heed-Token: " +
                                 std::string(token) + chunk)),
              expected)
        << "without a length";
  }
}

TEST(HttpServer, SlowClientsTimeOut) {
  server::ServerLimits limits;
  limits.read = limits.first = milliseconds(100);
  Served served(limits);
  const Client slow(served.server.port()), silent(served.server.port());
  EXPECT_EQ(status_of(slow.ask("GET /quick HTT")), 408);
  EXPECT_TRUE(slow.is_closed());
  EXPECT_TRUE(silent.is_closed());
  EXPECT_EQ(status_of(Client(served.server.port()).ask(get("/quick"))), 200);
}

TEST(HttpServer, TooManyConnectionsAndRequestsAreRefused) {
  server::ServerLimits limits;
  limits.connections = 2;
  Served served(limits);
  const Client first(served.server.port());
  first.send(get("/wait"));
  served.await_begun(1);
  const Client second(served.server.port());
  second.send(get("/wait"));  // waits for the first
  served.await_read(2);
  {
    const Client third(served.server.port());
    const std::string refused = third.answer();
    EXPECT_EQ(status_of(refused), 429) << "all connections are busy";
    EXPECT_NE(refused.find("Retry-After: 1\r\n"), refused.npos) << refused;
    EXPECT_TRUE(third.is_closed());
  }
  served.let_go();
  EXPECT_EQ(status_of(first.answer()), 200);
  EXPECT_EQ(status_of(second.answer()), 200);
}

TEST(HttpServer, TooManyRequestsAreRefused) {
  Served served({}, {}, {}, 1);
  const Client first(served.server.port()), second(served.server.port()), third(served.server.port());
  first.send(get("/wait"));
  served.await_begun(1);
  second.send(get("/wait"));  // waits for the first
  served.await_read(2);
  EXPECT_EQ(status_of(third.ask(get("/quick"))), 200) << "what computes nothing need not wait";
  const std::string refused = third.ask(get("/compute"));
  EXPECT_EQ(status_of(refused), 429) << "the queue is full";
  EXPECT_NE(refused.find("Retry-After: 1\r\n"), refused.npos) << refused;
  served.let_go();
  EXPECT_EQ(status_of(first.answer()), 200);
  EXPECT_EQ(status_of(second.answer()), 200);
}

TEST(HttpServer, IdleConnectionsGiveWay) {
  server::ServerLimits limits;
  limits.connections = 3;
  Served served(limits);
  const Client known(served.server.port());
  EXPECT_EQ(status_of(known.ask(get("/quick"))), 200);
  const Client refused(served.server.port());
  EXPECT_EQ(status_of(refused.ask(get("/refused"))), 403);
  const Client silent(served.server.port());
  const Client newest(served.server.port());
  EXPECT_EQ(status_of(newest.ask(get("/quick"))), 200);
  EXPECT_TRUE(refused.is_closed()) << "the oldest of those that were not let in";
  EXPECT_EQ(status_of(known.ask(get("/quick"))), 200);
  const Client another(served.server.port());
  EXPECT_EQ(status_of(another.ask(get("/quick"))), 200);
  EXPECT_TRUE(silent.is_closed());
  const Client last(served.server.port());
  EXPECT_EQ(status_of(last.ask(get("/quick"))), 200);
  EXPECT_TRUE(newest.is_closed()) << "the one that was idle longest";
}

TEST(HttpServer, IdleConnectionsKeepNothingOfLargeAnswers) {
  constexpr std::size_t kBytes = 60'000, kClients = 32;
  Served served;
  std::vector<std::unique_ptr<Client>> clients;
  const auto in_use = [] {
    const struct mallinfo2 now = mallinfo2();
    return static_cast<std::ptrdiff_t>(now.uordblks + now.hblkhd);
  };
  const std::string large(kBytes, 'x');
  const auto ask = [&](const std::string& body) {
    for (const auto& client : clients) {
      const bool answered = client->ask(post("/compute", body)).ends_with("computed " + body);
      EXPECT_TRUE(answered);
    }
  };
  for (std::size_t i = 0; i < kClients; ++i)
    clients.push_back(std::make_unique<Client>(served.server.port()));
  ask("small");
  const std::ptrdiff_t before = in_use();
  ask(large);
  EXPECT_EQ(status_of(clients.front()->ask(get("/quick"))), 200);  // the last answer has gone
  EXPECT_LT(in_use() - before, static_cast<std::ptrdiff_t>(kBytes * kClients / 4));
}

TEST(HttpServer, StrangersWaitNotLong) {
  server::ServerLimits limits;
  limits.first = milliseconds(100);
  Served served(limits);
  const Client known(served.server.port()), silent(served.server.port());
  EXPECT_EQ(status_of(known.ask(get("/quick"))), 200);
  EXPECT_TRUE(silent.is_closed());
  EXPECT_EQ(status_of(known.ask(get("/quick"))), 200);
}

TEST(HttpServer, AClosedConnectionCancelsItsWork) {
  Served served;
  {
    const Client gone(served.server.port());
    gone.send(get("/wait"));
    served.await_begun(1);
  }
  served.await_canceled(1);
  EXPECT_EQ(status_of(Client(served.server.port()).ask(get("/compute"))), 200);
}

TEST(HttpServer, AClosedConnectionCancelsItsWorkWhateverWaitsBehindIt) {
  Served served;
  {
    const Client gone(served.server.port());
    gone.send(get("/wait") + get("/wait"));
    served.await_begun(1);
  }
  served.await_canceled(1);
}

TEST(HttpServer, AHalfClosedConnectionIsToldWhyNothingCame) {
  Served served;
  const Client half(served.server.port());
  half.send(get("/wait"));
  served.await_begun(1);
  half.end_sending();
  EXPECT_THAT(half.answer(), HasSubstr("canceled: the client closed its end of the connection"));
}

TEST(HttpServer, StoppingCancelsAndAnswers) {
  Served served;
  const Client working(served.server.port()), idle(served.server.port());
  working.send(get("/wait"));
  served.await_begun(1);
  served.finish();
  EXPECT_EQ(status_of(working.answer()), 503);
  EXPECT_TRUE(idle.is_closed());
}

TEST(HttpServer, NamesAPortInUseAndAnUnknownHost) {
  Served served;
  EXPECT_ERROR(HttpServer({"127.0.0.1", served.server.port()}, {}),
               "--port: 127.0.0.1:" + std::to_string(served.server.port()) +
                   " is in use (choose another; --port 0 takes one that is free)");
  EXPECT_ERROR(HttpServer({"no such host", 0}, {}), "--host: no such host not found");
}

}  // namespace
}  // namespace heed::server_test
