// The table of problems.
#include "serve/api_error.h"

namespace heed::serve {
namespace {

struct Form {
  Problem problem;
  int openai_status, tei_status;
  const char *openai_type, *tei_type;
  const char* code;  // of OpenAI; null: none
};
constexpr Form kForms[] = {
    {Problem::invalid, 400, 400, "invalid_request_error", "Validation", nullptr},
    {Problem::empty, 400, 400, "invalid_request_error", "Empty", nullptr},
    {Problem::not_supported, 400, 400, "invalid_request_error", "Validation", "not_supported"},
    {Problem::too_long, 400, 413, "invalid_request_error", "Validation", "context_length_exceeded"},
    {Problem::unauthorized, 401, 401, "authentication_error", "Validation", "invalid_api_key"},
    {Problem::forbidden, 403, 403, "permission_error", "Validation", nullptr},
    {Problem::not_found, 404, 404, "not_found_error", "Validation", "not_found"},
    {Problem::no_model, 404, 404, "not_found_error", "Validation", "model_not_found"},
    {Problem::wrong_method, 405, 405, "invalid_request_error", "Validation", nullptr},
    {Problem::too_large, 413, 413, "invalid_request_error", "Validation", nullptr},
    {Problem::encoded, 415, 415, "invalid_request_error", "Validation", nullptr},
    {Problem::unsuitable, 400, 424, "invalid_request_error", "Backend", nullptr},
    {Problem::overloaded, 429, 429, "rate_limit_error", "Overloaded", "overloaded"},
    {Problem::computation, 500, 424, "server_error", "Backend", nullptr},
    {Problem::stopping, 503, 503, "unavailable_error", "Unhealthy", nullptr},
    {Problem::too_late, 504, 504, "timeout_error", "Backend", nullptr},
};

const Form& form_of(Problem problem) {
  for (const Form& form : kForms) {
    if (form.problem == problem) return form;
  }
  HEED_ASSERT(false, "unknown problem");
}

}  // namespace

ApiError overloaded(const std::string& full, const char* option) {
  return {Problem::overloaded, full + ", as many as " + option + " lets (try again later)"};
}

int status_of(Api api, Problem problem) {
  return api == Api::tei ? form_of(problem).tei_status : form_of(problem).openai_status;
}

Json error_json(Api api, const ApiError& error) {
  const Form& form = form_of(error.problem());
  if (api == Api::tei) return {{"error", error.what()}, {"error_type", form.tei_type}};
  Json inner = {{"message", error.what()}, {"type", form.openai_type}, {"param", nullptr}, {"code", nullptr}};
  if (!error.param().empty()) inner["param"] = error.param();
  if (form.code != nullptr) inner["code"] = form.code;
  return {{"error", std::move(inner)}};
}

server::HttpResponse error_answer(Api api, const ApiError& error) {
  server::HttpResponse response{status_of(api, error.problem()), json_text(error_json(api, error))};
  if (error.problem() == Problem::overloaded)
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after));
  if (error.problem() == Problem::unauthorized) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace heed::serve
