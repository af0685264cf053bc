// A small HTTP/1.1 server: one thread for the network, one that computes. Requests and answers are values, so
// that what answers them needs no network. Only http_server.cpp knows Boost.Beast.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heed::server {

struct HttpRequest {
  std::string method;                 ///< as sent: GET, POST, …
  std::string target;                 ///< path and query, as sent
  std::string host, token;            ///< the headers Host and X-Heed-Token
  std::optional<std::string> origin;  ///< the header Origin
  std::string local_address;          ///< of this end of the connection: 127.0.0.1
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string type = "application/json; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// {"error": message}
HttpResponse error_response(int status, const std::string& message);

struct ServerLimits {
  std::size_t header_bytes = 16 * 1024;             ///< beyond: 431
  std::size_t body_bytes = 1024 * 1024;             ///< beyond: 413
  std::size_t large_body_bytes = 32 * 1024 * 1024;  ///< of requests that ServerOptions::has_large_body names
  std::size_t connections = 32;  ///< beyond: the longest idle one is closed, or 429 if all are busy
  std::size_t waiting = 8;       ///< requests that wait for the computing thread; beyond: 429
  std::chrono::milliseconds read = std::chrono::seconds(15);   ///< of a request, from its first byte: 408
  std::chrono::milliseconds write = std::chrono::seconds(30);  ///< of an answer
  std::chrono::milliseconds first = std::chrono::seconds(5);   ///< of a connection before it is let in
  std::chrono::milliseconds idle = std::chrono::seconds(60);   ///< of a connection between requests
};

struct ServerOptions {
  std::string host = "127.0.0.1";  ///< a name or an address
  std::uint16_t port = 0;          ///< 0: one that is free
  ServerLimits limits = {};
  /// Called on the network's thread with the headers of a request, before its body is read: whether that may
  /// be large.
  std::function<bool(const HttpRequest&)> has_large_body = {};
};

class HttpServer {
 public:
  /// Called on the network's thread: answers at once, or returns nothing for a request that computes. A
  /// connection is let in by its first answer other than 403.
  using AtOnce = std::function<std::optional<HttpResponse>(const HttpRequest&)>;
  /// Called on the computing thread, one request at a time, in their order. `stop` becomes true when the
  /// client closes its connection or the server stops; Canceled may then be thrown.
  using Compute = std::function<HttpResponse(const HttpRequest&, const std::atomic<bool>& stop)>;

  /// Listens. Throws Error for a host that does not exist and a port in use.
  HttpServer(const ServerOptions& options, AtOnce at_once, Compute compute);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  /// Whether it listens on a loopback address.
  bool is_loopback() const;
  /// Serves until `stop`; what is under way is then canceled.
  void run(const std::atomic<bool>& stop);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace heed::server
