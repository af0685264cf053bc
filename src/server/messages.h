// Requests and answers of HTTP as values, so that what answers them needs no network: with what can be wrong
// with a request, in the form of each interface, and bodies that are forms.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "heed/error.h"

namespace heed::server {

struct HttpRequest {
  std::string method;                 ///< as sent: GET, POST, …
  std::string target;                 ///< path and query, as sent
  std::string host, token;            ///< the headers Host and X-Heed-Token
  std::optional<std::string> origin;  ///< the header Origin
  std::string local_address;          ///< of this end of the connection: 127.0.0.1
  std::string body;
  std::string authorization = {}, content_type = {}, accept = {}, content_encoding = {},
              accept_encoding = {};       ///< the headers of these names
  std::string asked_headers = {};         ///< the header Access-Control-Request-Headers
  std::string id = {};                    ///< the header X-Request-Id
  std::string client = {};                ///< the address of the other end
  unsigned version = 11;                  ///< 10: HTTP/1.0
  std::shared_ptr<const void> room = {};  ///< that its body takes of ServerLimits::bodies_bytes
  bool stopping = false;  ///< the server has been asked to stop: it answers what it has accepted, and no more
};

/// Which body a request may have: none is read of one that is answered by its headers alone.
enum class Body : std::uint8_t { none, usual, large };

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string type = "application/json; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// {"error": message}; of status 429 and 503 with the time to wait, a second.
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

/// How an error is written: as OpenAI does, as Text Embeddings Inference (TEI), or as a message alone.
enum class ErrorForm : std::uint8_t { openai, tei, message };

enum class ErrorCode : std::uint8_t {
  invalid,        ///< 400
  empty,          ///< 400: no input
  not_supported,  ///< 400
  too_long,       ///< 400, of TEI 413: more tokens than the model takes
  unauthorized,   ///< 401
  forbidden,      ///< 403
  not_found,      ///< 404
  no_model,       ///< 404
  wrong_method,   ///< 405
  too_large,      ///< 413
  encoded,        ///< 415: a body that is compressed
  unsuitable,     ///< 400, of TEI 424: the model cannot do this
  overloaded,     ///< 429, with Retry-After
  limited,        ///< the same: more than the limits of a key
  computation,    ///< 500, of TEI 424
  stopping,       ///< 503
  changed_model,  ///< 503: its files were written to
  too_late,       ///< 504
};

class ApiError : public Error {
 public:
  ApiError(ErrorCode code, const std::string& message, std::string param = {})
      : Error(message), code_(code), param_(std::move(param)) {}
  ErrorCode code() const { return code_; }
  /// The field that is wrong; may be empty.
  const std::string& param() const { return param_; }
  /// Of `overloaded` and `limited`: when to try again, in seconds.
  std::int64_t retry_after = 1;

 private:
  ErrorCode code_;
  std::string param_;
};

/// 429 that says what is full, and which option says how much there may be.
ApiError overloaded(const std::string& full, const char* option);

int status_of(ErrorForm form, ErrorCode code);
/// In a word, for the log: `overloaded`.
const char* name_of(ErrorCode code);
/// {"error": {"message", "type", "param", "code"}}, {"error", "error_type"}, or {"error"}.
Json error_json(ErrorForm form, const ApiError& error);
HttpResponse error_answer(ErrorForm form, const ApiError& error);

/// Gives freed memory back to the system, after a body or an answer of so many bytes, if they are many.
void give_memory_back(std::size_t bytes);

// Bodies of type multipart/form-data (RFC 7578), as browsers and clients send files with fields.

struct FormPart {
  std::string name;
  std::optional<std::string> file;  ///< the name of a file
  std::string_view content;         ///< any bytes
};

/// Whether a header Content-Type says so.
bool is_form(std::string_view content_type);

/// The parts of a body, in their order, which refer to it. Throws Error `request: expected …` for another
/// type, a body that is not whole, more than 64 parts, and a part with more than 8 KiB of headers.
std::vector<FormPart> parse_form(std::string_view content_type, std::string_view body);

}  // namespace heed::server
