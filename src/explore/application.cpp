// Requests by path and method.
#include "explore/application.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "explore/page_text.h"
#include "heed/canceled.h"
#include "heed/error.h"
#include "server/access.h"

namespace heed::explore {
namespace {

// The page with a nonce of its own: no other script or style is run.
server::HttpResponse page_response() {
  const std::string nonce = server::random_token();
  return {200,
          served_page(nonce),
          "text/html; charset=utf-8",
          {{"Content-Security-Policy",
            "default-src 'none'; script-src 'nonce-" + nonce + "'; style-src 'nonce-" + nonce +
                "'; img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                "frame-ancestors 'none'"}}};
}

// What a reader sees who opens the address without its token, which a program gets as JSON.
server::HttpResponse refusal_page(server::HttpResponse refused) {
  if (refused.body.find("token: ") == refused.body.npos) return refused;
  refused.body =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>heed "
      "explore</title>\n</head>\n<body>\n<main>\n"
      "<h1>This address lacks the server's token</h1>\n"
      "<p>Open the address that <code>heed explore</code> printed when it was started: it ends in "
      "<code>?token=</code> and 32 letters and digits, which are new at each "
      "start.</p>\n</main>\n</body>\n</html>\n";
  refused.type = "text/html; charset=utf-8";
  refused.headers.emplace_back(
      "Content-Security-Policy",
      "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  return refused;
}

server::HttpResponse wrong_method(const char* allowed) {
  server::HttpResponse response = server::error_response(405, "method: expected " + std::string(allowed));
  response.headers.emplace_back("Allow", allowed);
  return response;
}

/// What the explorer computes for a JSON object.
struct Question {
  std::string_view path;
  std::string (Explorer::*answer)(std::string_view, const std::atomic<bool>&);
};
constexpr Question kQuestions[] = {{"/api/run", &Explorer::run},   {"/api/ablation", &Explorer::ablation},
                                   {"/api/flow", &Explorer::flow}, {"/api/steps", &Explorer::steps},
                                   {"/api/why", &Explorer::why},   {"/api/traps", &Explorer::traps}};

/// Null for another path.
const Question* question_at(std::string_view path) {
  const auto* found = std::find_if(std::begin(kQuestions), std::end(kQuestions),
                                   [&](const Question& one) { return one.path == path; });
  return found == std::end(kQuestions) ? nullptr : found;
}

/// -1 for what is no number.
std::int64_t number_in(std::string_view text) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

}  // namespace

Application::Application(Explorer& explorer, std::string host, std::string token)
    : explorer_(explorer), host_(std::move(host)), token_(std::move(token)), models_(explorer.models()) {}

server::HttpResponse Application::pack(const server::HttpRequest& request) const {
  const std::int64_t run = number_in(server::parameter_of(request.target, "run"));
  const std::int64_t index = number_in(server::parameter_of(request.target, "pack"));
  if (run < 0 || index < 0) return server::error_response(400, "pack: expected ?run=N&pack=N");
  auto text = explorer_.pack(run, index);
  if (!text) return server::error_response(404, "pack: not found (run again)");
  return {200, std::move(*text), "text/plain; charset=utf-8"};
}

std::optional<server::HttpResponse> Application::at_once(const server::HttpRequest& request) const {
  const std::string_view path = server::path_of(request.target);
  if (auto refused = server::refusal(request, host_, token_))
    return path == "/" ? refusal_page(std::move(*refused)) : refused;
  if (path == "/api/file" || path == "/api/tokens" || question_at(path) != nullptr)
    return request.method == "POST" ? std::nullopt : std::optional(wrong_method("POST"));
  if (path != "/" && path != "/api/models" && path != "/api/pack")
    return server::error_response(404, "path: not found");
  if (request.method != "GET") return wrong_method("GET");
  if (path == "/") return page_response();
  return path == "/api/models" ? server::HttpResponse{200, models_} : pack(request);
}

bool Application::has_file(const server::HttpRequest& request) const {
  return server::path_of(request.target) == "/api/file" && request.method == "POST" &&
         !server::refusal(request, host_, token_);
}

server::HttpResponse Application::compute(const server::HttpRequest& request, const std::atomic<bool>& stop) {
  try {
    if (server::path_of(request.target) == "/api/file") {
      const std::int64_t model = number_in(server::parameter_of(request.target, "model"));
      if (model < 0) return server::error_response(400, "file: expected ?model=N");
      return {200, explorer_.add_file(static_cast<std::size_t>(model), request.body, stop)};
    }
    const std::string_view path = server::path_of(request.target);
    if (path == "/api/tokens") return {200, explorer_.ids(request.body)};
    const Question* question = question_at(path);
    return {200, (explorer_.*question->answer)(request.body, stop)};
  } catch (const Error& error) {
    return server::error_response(400, error.what());
  }
}

}  // namespace heed::explore
