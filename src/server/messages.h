// Requests and answers of HTTP as values, so that what answers them needs no network.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>
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
  std::string authorization = {}, content_type = {}, accept = {},
              content_encoding = {};  ///< the headers of these names
  std::string asked_headers = {};     ///< the header Access-Control-Request-Headers
  bool stopping = false;  ///< the server has been asked to stop: it answers what it has accepted, and no more
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string type = "application/json; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// {"error": message}; of status 429 with the time to wait, a second.
HttpResponse error_response(int status, const std::string& message);

/// The way back to the client of one request. Where it ends without an answer, the client gets 500.
/// Threads: one at a time, any.
class Reply {
 public:
  virtual ~Reply() = default;
  /// Sends the whole answer.
  virtual void answer(HttpResponse response) = 0;
  /// Begins an answer that comes in parts, of which `response.body` is the first; `ping` is sent whenever
  /// nothing else was for ServerLimits::ping (of server-sent events a comment).
  virtual void begin(HttpResponse response, std::string ping = {}) = 0;
  /// Sends a part. A client that does not read what was sent (ServerLimits::unsent_bytes) is dropped.
  virtual void write(std::string_view part) = 0;
  virtual void end() = 0;
  /// True once nobody waits for the answer: the client has gone, or the server cannot wait any longer.
  virtual const std::atomic<bool>& stop() const = 0;
  /// Whether the client has gone.
  virtual bool has_left() const = 0;
};

}  // namespace heed::server
