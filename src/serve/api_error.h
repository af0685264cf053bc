// What can be wrong with a request, in the form of each API.
#pragma once

#include <optional>
#include <string>

#include "core/json.h"
#include "heed/error.h"
#include "server/messages.h"

namespace heed::serve {

/// Whose form an answer has: OpenAI's, or that of Text Embeddings Inference (TEI).
enum class Api : std::uint8_t { openai, tei };

enum class Problem : std::uint8_t {
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
  ApiError(Problem problem, const std::string& message, std::string param = {})
      : Error(message), problem_(problem), param_(std::move(param)) {}
  Problem problem() const { return problem_; }
  /// The field that is wrong; may be empty.
  const std::string& param() const { return param_; }
  /// Of `overloaded`: when to try again.
  std::int64_t retry_after = 1;

 private:
  Problem problem_;
  std::string param_;
};

/// 429 that says what is full, and which option says how much there may be.
ApiError overloaded(const std::string& full, const char* option);

int status_of(Api api, Problem problem);
/// {"error": {"message", "type", "param", "code"}}, or {"error", "error_type"}.
Json error_json(Api api, const ApiError& error);
server::HttpResponse error_answer(Api api, const ApiError& error);

}  // namespace heed::serve
