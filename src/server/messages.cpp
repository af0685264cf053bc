// The table of error codes.
#include "server/messages.h"

#include <malloc.h>

namespace heed::server {
namespace {

struct Written {
  ErrorCode code;
  int status, tei_status;
  const char *openai_type, *tei_type;
  const char* openai_code;  // null: none
};
constexpr Written kCodes[] = {
    {ErrorCode::invalid, 400, 400, "invalid_request_error", "Validation", nullptr},
    {ErrorCode::empty, 400, 400, "invalid_request_error", "Empty", nullptr},
    {ErrorCode::not_supported, 400, 400, "invalid_request_error", "Validation", "not_supported"},
    {ErrorCode::too_long, 400, 413, "invalid_request_error", "Validation", "context_length_exceeded"},
    {ErrorCode::unauthorized, 401, 401, "authentication_error", "Validation", "invalid_api_key"},
    {ErrorCode::forbidden, 403, 403, "permission_error", "Validation", nullptr},
    {ErrorCode::not_found, 404, 404, "not_found_error", "Validation", "not_found"},
    {ErrorCode::no_model, 404, 404, "not_found_error", "Validation", "model_not_found"},
    {ErrorCode::wrong_method, 405, 405, "invalid_request_error", "Validation", nullptr},
    {ErrorCode::too_large, 413, 413, "invalid_request_error", "Validation", nullptr},
    {ErrorCode::encoded, 415, 415, "invalid_request_error", "Validation", nullptr},
    {ErrorCode::unsuitable, 400, 424, "invalid_request_error", "Backend", nullptr},
    {ErrorCode::overloaded, 429, 429, "rate_limit_error", "Overloaded", "overloaded"},
    {ErrorCode::limited, 429, 429, "rate_limit_error", "Overloaded", "rate_limit_exceeded"},
    {ErrorCode::computation, 500, 424, "server_error", "Backend", nullptr},
    {ErrorCode::stopping, 503, 503, "unavailable_error", "Unhealthy", nullptr},
    {ErrorCode::changed_model, 503, 503, "unavailable_error", "Unhealthy", "model_changed"},
    {ErrorCode::too_late, 504, 504, "timeout_error", "Backend", nullptr},
};

const Written& written(ErrorCode code) {
  for (const Written& one : kCodes) {
    if (one.code == code) return one;
  }
  HEED_ASSERT(false, "unknown code");
}

}  // namespace

ApiError overloaded(const std::string& full, const char* option) {
  return {ErrorCode::overloaded, full + ", as many as " + option + " lets (try again later)"};
}

const char* name_of(ErrorCode code) {
  const Written& one = written(code);
  return one.openai_code != nullptr ? one.openai_code : one.openai_type;
}

int status_of(ErrorForm form, ErrorCode code) {
  return form == ErrorForm::tei ? written(code).tei_status : written(code).status;
}

Json error_json(ErrorForm form, const ApiError& error) {
  const Written& code = written(error.code());
  if (form == ErrorForm::message) return {{"error", error.what()}};
  if (form == ErrorForm::tei) return {{"error", error.what()}, {"error_type", code.tei_type}};
  Json inner = {{"message", error.what()}, {"type", code.openai_type}, {"param", nullptr}, {"code", nullptr}};
  if (!error.param().empty()) inner["param"] = error.param();
  if (code.openai_code != nullptr) inner["code"] = code.openai_code;
  return {{"error", std::move(inner)}};
}

HttpResponse error_answer(ErrorForm form, const ApiError& error) {
  HttpResponse response{status_of(form, error.code()), json_text(error_json(form, error))};
  if (error.code() == ErrorCode::overloaded || error.code() == ErrorCode::limited)
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after));
  if (error.code() == ErrorCode::unauthorized) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse error_response(int status, const std::string& message) {
  HttpResponse response{status, json_text(Json{{"error", message}})};
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

void give_memory_back(std::size_t bytes) {
  constexpr std::size_t kMany = 1 << 20;
  if (bytes >= kMany) ::malloc_trim(0);
}

}  // namespace heed::server
