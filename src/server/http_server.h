// A small HTTP/1.1 server: one thread for the network; answers come from any thread, whole or in parts. Only
// http_server.cpp knows Boost.Beast.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/messages.h"

namespace heed::server {

struct ServerLimits {
  std::size_t header_bytes = 16 * 1024;             ///< beyond: 431
  std::size_t body_bytes = 1024 * 1024;             ///< beyond: 413
  std::size_t large_body_bytes = 32 * 1024 * 1024;  ///< of requests whose Body is large
  std::size_t bodies_bytes = 256 * 1024 * 1024;     ///< of all requests that are not yet answered: 503
  std::size_t connections = 32;  ///< beyond: the longest idle one is closed, or 429 if all are busy
  std::chrono::milliseconds read = std::chrono::seconds(15);   ///< of a request, from its first byte: 408
  std::chrono::milliseconds write = std::chrono::seconds(30);  ///< of an answer
  std::chrono::milliseconds first = std::chrono::seconds(5);   ///< of a connection before it is let in
  std::chrono::milliseconds idle = std::chrono::seconds(60);   ///< of a connection between requests
  std::chrono::milliseconds ping = std::chrono::seconds(15);   ///< of silence in an answer of parts
  std::chrono::milliseconds drain{0};  ///< for answers to what was accepted, once the server is to stop
  /// Of parts that a client has not read for 10 s; 16 times as many, and one part more, at any time.
  std::size_t unsent_bytes = 4 * 1024 * 1024;
};

struct ServerOptions {
  std::string host = "127.0.0.1";  ///< a name or an address
  std::uint16_t port = 0;          ///< 0: one that is free
  ServerLimits limits = {};
  /// Called on the network's thread with the headers of a request, before its body is read. Empty: all have a
  /// usual one.
  std::function<Body(const HttpRequest&)> body_of = {};
  /// Called on the network's thread for what could not be read as a request, with what is known of it: the
  /// answer. Empty: error_response().
  std::function<HttpResponse(int status, const std::string& message, const HttpRequest& request)> refuse = {};
  /// Called on the network's thread every 50 ms, also while the server drains. May be empty.
  std::function<void()> each_look = {};
};

class HttpServer {
 public:
  /// Called on the network's thread, which it must not hold up: answers now or later. A
  /// connection is let in by its first answer other than 403.
  using Handle = std::function<void(HttpRequest, std::shared_ptr<Reply>)>;

  /// Listens. Throws Error for a host that does not exist and a port in use.
  HttpServer(const ServerOptions& options, Handle handle);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  /// Whether it listens on a loopback address.
  bool is_loopback() const;
  /// Serves until `stop`; what is under way then has ServerLimits::drain to end, and is canceled.
  void run(const std::atomic<bool>& stop);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace heed::server
