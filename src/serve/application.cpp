// From HTTP to handlers.
#include "serve/application.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/strings.h"
#include "server/access.h"

namespace heed::serve {
namespace {

server::HttpResponse health_of(bool stopping) {
  return {stopping ? 503 : 200, stopping ? R"({"status":"stopping"})" : R"({"status":"ok"})"};
}

bool equal_ignoring_case(std::string_view a, std::string_view lower) {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(),
                    [](char x, char y) { return ascii_lower(x) == y; });
}

std::string_view key_of(const server::HttpRequest& request) {
  constexpr std::string_view kBearer = "bearer ";
  std::string_view given = request.authorization;
  if (!equal_ignoring_case(given.substr(0, kBearer.size()), kBearer)) return {};
  given.remove_prefix(kBearer.size());
  return given;
}

// The query of a request without a body names its model there.
Json body_of(const server::HttpRequest& request, const Route& route) {
  if (!route.fields.empty()) return route.is_form ? Json::object() : parse_body(request.body);
  Json body = Json::object();
  const std::string name = server::percent_decoded(server::parameter_of(request.target, "model"));
  if (!name.empty()) body["model"] = name;
  return body;
}

}  // namespace

Application::Application(Services services, AccessOptions access)
    : services_(std::move(services)),
      access_(std::move(access)),
      scheduler_(services_.limits, services_.book),
      reader_(static_cast<std::size_t>(services_.limits.queue)) {}

bool Application::is_own_page(const server::HttpRequest& request) const {
  return *request.origin == "http://" + request.host || *request.origin == "https://" + request.host;
}

// For pages of other origins that may ask.
std::vector<std::pair<std::string, std::string>> Application::headers_for(
    const server::HttpRequest& request) const {
  if (!request.origin || is_own_page(request)) return {};
  const auto& origins = access_.origins;
  const auto is_listed = [&](const std::string& origin) {
    return std::find(origins.begin(), origins.end(), origin) != origins.end();
  };
  if (is_listed("*")) return {{"Access-Control-Allow-Origin", "*"}};
  if (!is_listed(*request.origin)) return {};
  return {{"Access-Control-Allow-Origin", *request.origin}, {"Vary", "Origin"}};
}

void Application::require_access(const server::HttpRequest& request, const Route& route) const {
  if (!access_.host.empty() && !server::names_this_server(request, access_.host))
    throw ApiError(Problem::forbidden,
                   "Host: expected " + request.local_address + ", the address of this server");
  if (request.origin && !is_own_page(request) && headers_for(request).empty())
    throw ApiError(Problem::forbidden, "Origin: expected a page of this server (see --cors-origin)");
  if (route.is_public || access_.keys.empty()) return;
  bool known = false;  // all are compared, so that the time does not tell which
  for (const std::string& key : access_.keys) known = server::same_secret(key_of(request), key) || known;
  if (!known)
    throw ApiError(Problem::unauthorized, "Authorization: expected Bearer and the key of this server");
}

// What a browser asks before it sends a page's request.
void Application::preflight(Call& call, const std::string& methods) const {
  server::HttpResponse response{204, "", "application/json", {{"Allow", methods + ", OPTIONS"}}};
  if (!call.headers.empty()) {
    response.headers.emplace_back("Access-Control-Allow-Methods", methods);
    // Those that the page wants to send: clients have some of their own.
    const std::string& asked = call.request().asked_headers;
    response.headers.emplace_back("Access-Control-Allow-Headers",
                                  server::are_header_names(asked) ? asked : "Authorization, Content-Type");
    response.headers.emplace_back("Access-Control-Max-Age", "600");
  }
  call.answer(std::move(response));
}

server::HttpResponse Application::error_form(int status, const std::string& message,
                                             const std::string& target) {
  const Route* route = nullptr;
  for (const char* method : {"POST", "GET"}) {
    if (route == nullptr) route = find_route(method, server::path_of(target));
  }
  if (route == nullptr) return server::error_response(status, message);
  return {status, json_text(error_json(route->api, ApiError(Problem::invalid, message)))};
}

void Application::handle(server::HttpRequest request, std::shared_ptr<server::Reply> reply) {
  const std::string path(server::path_of(request.target));
  std::string methods;
  const bool asks_first = request.method == "OPTIONS";
  const Route* route = find_route(request.method, path, &methods);
  const char* name = route != nullptr ? route->paths.front() : methods.empty() ? "unknown" : "other";
  const Api api = route != nullptr ? route->api : Api::openai;
  const auto call = std::make_shared<Call>(std::move(request), std::move(reply), name, api, services_.book);
  call->headers = headers_for(call->request());
  call->deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(access_.request_seconds));
  if (methods.empty())
    return call->fail(
        ApiError(Problem::not_found, "path: " + json_shown(path) + " not found (see /openapi.json)"));
  if (asks_first) return preflight(*call, methods);
  if (route == nullptr) {
    call->headers.emplace_back("Allow", methods + ", OPTIONS");
    return call->fail(ApiError(Problem::wrong_method, "method: expected " + methods));
  }
  this->route(call, *route);
}

void Application::route(const std::shared_ptr<Call>& call, const Route& route) {
  const server::HttpRequest& request = call->request();
  const std::string_view path = route.paths.front();
  try {
    require_access(request, route);
    if (path == "/health") return call->answer(health_of(request.stopping));
    if (request.stopping) throw ApiError(Problem::stopping, "the server stops");
    if (const std::string& coding = request.content_encoding;
        !coding.empty() && !equal_ignoring_case(coding, "identity"))
      throw ApiError(Problem::encoded,
                     "Content-Encoding: expected none or identity, got " + json_shown(coding));
    if (path == "/metrics")
      return call->answer(
          server::HttpResponse{200, services_.book->metrics.text(), "text/plain; version=0.0.4"});
    if (path == "/openapi.json") return call->answer(openapi());
    if (!reader_.post([this, call, &route] { run(call, route); }))
      throw overloaded(fmt::format("{} requests wait to be read", services_.limits.queue), "--max-queue");
  } catch (const ApiError& error) {
    call->fail(error);
  }
}

void Application::run(const std::shared_ptr<Call>& call, const Route& route) {
  try {
    if (call->is_over()) throw ApiError(Problem::stopping, "canceled: nobody waits for the answer");
    const Json body = body_of(call->request(), route);
    const Fields fields(body);
    route.handler({services_, scheduler_, call, fields});
  } catch (const ApiError& error) {
    call->fail(error);
  } catch (const std::bad_alloc&) {
    call->fail(ApiError(Problem::computation, "memory: not enough for this request"));
  } catch (const Error& error) {
    call->fail(ApiError(Problem::invalid, error.what()));
  } catch (const std::exception& error) {
    call->fail(ApiError(Problem::computation, error.what()));
  }
}

}  // namespace heed::serve
