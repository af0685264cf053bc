// A single HTTP request and its answer, using libcurl. Redirects are not followed here, because the caller
// decides whether the token may be sent along (client.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "heed/error.h"

namespace heed::hub {

struct Settings {
  std::string endpoint = "https://huggingface.co";  // without a trailing slash
  std::string token;                                // empty: no token is sent
  std::filesystem::path cache;
  std::string certificates;  // a file of certificate authorities; empty: the system's
  bool offline = false;
  int connect_seconds = 10;   // for opening a connection, and for answers without a file
  int download_seconds = 10;  // longest time without data in a download
  double first_delay = 1;     // seconds before the first retry of a request; doubled each time
  int connections = 4;

  /// Reads HF_ENDPOINT, HF_TOKEN (or the file HF_TOKEN_PATH, default HF_HOME/token; no token if
  /// HF_HUB_DISABLE_IMPLICIT_TOKEN is set), HF_HUB_CACHE, HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE,
  /// HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT, and for certificates SSL_CERT_FILE, REQUESTS_CA_BUNDLE or
  /// CURL_CA_BUNDLE. Throws Error for invalid values.
  static Settings from_environment();
};

struct CurlLibrary;

/// A failed connection. `transient`: another attempt may help. `unreached`: the server never answered.
class ConnectionError : public Error {
 public:
  ConnectionError(const std::string& message, bool transient, bool unreached)
      : Error(message), transient(transient), unreached(unreached) {}
  const bool transient;
  const bool unreached;
};

/// Cancels the work: the user asked for it, or another connection of the same work failed.
struct StopSignal {
  const std::atomic<bool>* asked = nullptr;
  std::atomic<bool> failed{false};
  bool is_set() const { return failed || (asked != nullptr && *asked); }
};

struct Response {
  long status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; the last of repeated ones
  std::string body;                            // empty if the request has an on_body
  std::string redirect;                        // of a 3xx: the target as an absolute URL

  /// Returns a header, or an empty string.
  std::string header(const std::string& name) const;
  bool is_redirect() const { return status >= 300 && status < 400 && !redirect.empty(); }
};

struct Request {
  std::string url;
  bool head = false;                 // headers only
  std::vector<std::string> headers;  // "Name: value"
  int silence_seconds = 10;          // longest time without data
  std::size_t limit = 0;             // of the body, if it is collected
  /// Receives the body of a successful answer piece by piece. An exception from it ends the request and is
  /// rethrown.
  std::function<void(const Response&, std::string_view)> on_body;
};

/// Returns "https://host:port" of a URL, in lower case.
std::string origin_of(std::string_view url);

/// A connection that is kept open between requests. Not thread-safe.
class Http {
 public:
  Http(const Settings& settings, const StopSignal& stop);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  /// Sends a request. Throws ConnectionError, Canceled, Error if the body exceeds the limit, and what on_body
  /// throws.
  Response send(const Request& request);

 private:
  struct Transfer;
  void set_up(const Request& request, Transfer& transfer);
  [[noreturn]] void fail(int code, const Request& request, const Transfer& transfer) const;

  const CurlLibrary& library_;
  const Settings& settings_;
  const StopSignal& stop_;
  void* handle_;  // a CURL*
};

}  // namespace heed::hub
