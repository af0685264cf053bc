// What can be wrong with a request, in the form of each interface.
#pragma once

#include <optional>
#include <string>

#include "core/json.h"
#include "heed/error.h"
#include "server/messages.h"

namespace heed::server {

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
  computation,    ///< 500, of TEI 424
  stopping,       ///< 503
  too_late,       ///< 504
};

class ApiError : public Error {
 public:
  ApiError(ErrorCode code, const std::string& message, std::string param = {})
      : Error(message), code_(code), param_(std::move(param)) {}
  ErrorCode code() const { return code_; }
  /// The field that is wrong; may be empty.
  const std::string& param() const { return param_; }
  /// Of `overloaded`: when to try again, in seconds.
  std::int64_t retry_after = 1;

 private:
  ErrorCode code_;
  std::string param_;
};

/// 429 that says what is full, and which option says how much there may be.
ApiError overloaded(const std::string& full, const char* option);

int status_of(ErrorForm form, ErrorCode code);
/// {"error": {"message", "type", "param", "code"}}, {"error", "error_type"}, or {"error"}.
Json error_json(ErrorForm form, const ApiError& error);
HttpResponse error_answer(ErrorForm form, const ApiError& error);

}  // namespace heed::server
