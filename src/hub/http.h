// One HTTP request and its answer, over libcurl. Redirects are not followed here: whether the token may go
// along is the caller's decision (client.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "heed/error.h"
#include "hub/settings.h"

namespace heed::hub {

struct CurlLibrary;

/// Thrown when the work is to stop (Ctrl-C): what is downloaded so far stays, to be resumed.
class Stopped : public Error {
 public:
  Stopped() : Error("download: stopped (run the same command again to resume)") {}
};

/// A connection that failed. `transient`: another attempt may help. `unreached`: the other end never
/// answered.
class ConnectionError : public Error {
 public:
  ConnectionError(const std::string& message, bool transient, bool unreached)
      : Error(message), transient(transient), unreached(unreached) {}
  const bool transient;
  const bool unreached;
};

/// When to give up: the user asked to, or another connection of the same work failed.
struct StopSignal {
  const std::atomic<bool>* asked = nullptr;
  std::atomic<bool> failed{false};
  bool is_set() const { return failed || (asked != nullptr && *asked); }
};

struct Response {
  long status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; the last one of several
  std::string body;                            // empty where the request has an on_body
  std::string redirect;                        // of a 3xx: where to, as an absolute URL

  /// A header, or an empty text.
  std::string header(const std::string& name) const;
  bool is_redirect() const { return status >= 300 && status < 400 && !redirect.empty(); }
};

struct Request {
  std::string url;
  bool head = false;                 // headers only
  std::vector<std::string> headers;  // "Name: value"
  int silence_seconds = 10;          // longest time without a byte
  std::size_t limit = 0;             // of the body, where it is collected
  /// Takes the body of a successful answer piece by piece; what it throws ends the request and is thrown on.
  std::function<void(const Response&, std::string_view)> on_body;
};

/// "https://host:port" of a URL, in lower case.
std::string origin_of(std::string_view url);

/// A connection that is kept open between requests. For one thread.
class Http {
 public:
  Http(const Settings& settings, const StopSignal& stop);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  /// Sends a request. Throws ConnectionError, Stopped, Error for a body longer than the limit, and what
  /// on_body throws.
  Response send(const Request& request);

 private:
  struct Transfer;
  void set_up(const Request& request, Transfer& transfer);
  [[noreturn]] void fail(int code, const Request& request, const Transfer& transfer) const;

  const CurlLibrary& library_;
  const Settings& settings_;
  const StopSignal& stop_;
  void* handle_;  // curl's
};

}  // namespace heed::hub
