// From HTTP to routes.
#include "server/application.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "core/pause_point.h"
#include "core/strings.h"
#include "core/utf8.h"
#include "heed/error.h"
#include "server/messages.h"

namespace heed::server {
namespace {

constexpr std::size_t kLongBody = std::size_t{1} << 15;  // in bytes; what reads it may take long

std::vector<Route> with_document(std::vector<Route> routes, const std::string& title) {
  const Json document = openapi(routes, title);
  for (Route& route : routes) {
    if (route.paths.front() == std::string_view(kDocumentPath))
      route.answer = [document](const std::shared_ptr<Call>& call, Fields&) { call->answer(document); };
  }
  return routes;
}

bool is_parsed(const FieldNote& field) { return field.type == "number" || field.type == "boolean"; }

// The fields of a form as JSON: numbers and truths as they are written, and `a[]` as an array.
Json form_of(const HttpRequest& request, const Route& route) {
  const std::vector<FieldNote> known = fields_of(route);
  Json fields = Json::object();
  for (const FormPart& part : parse_form(request.content_type, request.body)) {
    if (part.file || replace_invalid_utf8(part.name) != part.name) continue;
    const std::string text = replace_invalid_utf8(part.content);
    const auto field =
        std::find_if(known.begin(), known.end(), [&](const FieldNote& one) { return one.name == part.name; });
    if (field != known.end() && is_parsed(*field) && !text.empty()) {
      try {
        fields[part.name] = parse_json(text, part.name);
      } catch (const Error&) {
        fields[part.name] = text;  // which is then refused
      }
    } else if (part.name.ends_with("[]")) {
      Json& list = fields[part.name.substr(0, part.name.size() - 2)];
      if (!list.is_array()) list = Json::array();
      list.push_back(text);
    } else if (!text.empty()) {
      fields[part.name] = text;
    }
  }
  return fields;
}

Json fields_in(const HttpRequest& request, const Route& route) {
  if (!route.walk) return Json::object();
  return route.is_form ? form_of(request, route) : parse_body(request.body);
}

}  // namespace

FormFiles files_of(const HttpRequest& request) {
  FormFiles files;
  for (const FormPart& part : parse_form(request.content_type, request.body)) {
    if (part.file) files.emplace_back(part.name, part.content);
  }
  return files;
}

Application::Application(std::vector<Route> routes, ApplicationOptions options)
    : routes_(with_document(std::move(routes), options.title)),
      options_(std::move(options)),
      access_(options_.access),
      queue_(static_cast<std::size_t>(options_.queue)) {
  later_->queue = &queue_;
  replace_keys(access_.keys);
}

// One without a name is called by its place.
void Application::replace_keys(std::vector<Key> keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].name.empty()) keys[i].name = std::to_string(i + 1);
  }
  access_.keys = std::move(keys);
}

Application::~Application() {
  const std::lock_guard lock(later_->mutex);
  later_->queue = nullptr;
}

// For pages of other origins that may ask.
std::vector<std::pair<std::string, std::string>> Application::headers_for(const HttpRequest& request) const {
  const AccessOptions& access = access_;
  if (!request.origin || is_own_page(request, access) || !is_listed_page(request, access)) return {};
  const auto& origins = access.origins;
  if (std::find(origins.begin(), origins.end(), "*") != origins.end())
    return {{"Access-Control-Allow-Origin", "*"}};
  return {{"Access-Control-Allow-Origin", *request.origin}, {"Vary", "Origin"}};
}

// What a browser asks before it sends a page's request.
void Application::preflight(Call& call, const std::string& methods) const {
  HttpResponse response{204, "", "application/json", {{"Allow", methods + ", OPTIONS"}}};
  if (!headers_for(call.request()).empty()) {
    response.headers.emplace_back("Access-Control-Allow-Methods", methods);
    // Those that the page wants to send: clients have some of their own.
    const std::string& asked = call.request().asked_headers;
    response.headers.emplace_back("Access-Control-Allow-Headers",
                                  are_header_names(asked) ? asked : "Authorization, Content-Type");
    response.headers.emplace_back("Access-Control-Max-Age", "600");
  }
  call.answer(std::move(response));
}

HttpResponse Application::refuse(int status, const std::string& message, const HttpRequest& request) const {
  const Route* route = nullptr;
  for (const char* method : {"POST", "GET"}) {
    if (route == nullptr) route = find_route(routes_, method, path_of(request.target));
  }
  HttpResponse response = error_response(status, message);
  if (route != nullptr)
    response.body = json_text(error_json(
        route->errors, ApiError(status == 503 ? ErrorCode::stopping : ErrorCode::invalid, message)));
  AccessRecord record;
  record.id = id_of(request);
  record.error = "not_read";
  response.headers.emplace_back("X-Request-Id", record.id);
  note_answer(*options_.registry, request, route != nullptr ? route->paths.front() : "unknown", status, 0,
              record);
  return response;
}

Body Application::body_of(const HttpRequest& request) const {
  const Route* route = find_route(routes_, request.method, path_of(request.target));
  if (route == nullptr) return Body::none;
  try {
    admit(request, route);
    return route->is_large ? Body::large : Body::usual;
  } catch (const ApiError&) {  // a stranger gets no memory
    return Body::none;
  }
}

// Throws ApiError for who may not ask. Who lacks the token learns nothing; keys are for what there is.
void Application::admit(const HttpRequest& request, const Route* route) const {
  if (route == nullptr && access_.token.empty()) return;
  if (route == nullptr || !route->any_host) require_host(request, access_);
  require_access(request, access_, route == nullptr || !route->is_public);
}

void Application::handle(HttpRequest request, std::shared_ptr<Reply> reply) {
  const std::string path(path_of(request.target));
  std::string methods;
  const bool asks_first = request.method == "OPTIONS";
  const Route* route = find_route(routes_, request.method, path, &methods);
  const char* name = route != nullptr ? route->paths.front() : methods.empty() ? "unknown" : "other";
  const auto call =
      std::make_shared<Call>(std::move(request), std::move(reply), name,
                             route != nullptr ? route->errors : options_.errors, options_.registry);
  for (auto& header : headers_for(call->request())) call->headers.push_back(std::move(header));
  call->deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(options_.request_seconds));
  if (options_.compresses) {
    call->later = [later = later_](std::function<void()> work, bool is_long) {
      const std::lock_guard lock(later->mutex);
      return later->queue != nullptr && later->queue->post(std::move(work), is_long);
    };
  }
  try {
    admit(call->request(), route);
    const Key* key = key_of(call->request(), access_);
    if (key != nullptr) call->record.key = key->name;
    if (methods.empty())
      throw ApiError(ErrorCode::not_found, "path: " + json_shown(path) + " not found (see /openapi.json)");
    if (asks_first) return preflight(*call, methods);
    if (route == nullptr) {
      call->headers.emplace_back("Allow", methods + ", OPTIONS");
      throw ApiError(ErrorCode::wrong_method, "method: expected " + methods);
    }
    if (key != nullptr && route->walk) {
      usage_->begin(*key, call->headers);
      call->ended = [usage = usage_](const AccessRecord& record) {
        usage->end(record.key, record.prompt_tokens + record.completion_tokens);
      };
    }
    enter(call, *route);
  } catch (const ApiError& error) {
    call->fail(error);
  }
}

// Answers at once, or queues what is to be answered.
void Application::enter(const std::shared_ptr<Call>& call, const Route& route) {
  const HttpRequest& request = call->request();
  if (request.stopping && !route.is_always) throw ApiError(ErrorCode::stopping, "the server stops");
  const std::string& coding = request.content_encoding;
  if (!coding.empty() && ascii_lower(coding) != "identity" && !route.is_always)
    throw ApiError(ErrorCode::encoded,
                   "Content-Encoding: expected none or identity, got " + json_shown(coding));
  if (route.at_once) return run(call, route);
  const bool is_long = request.body.size() > kLongBody;
  if (!queue_.post([this, call, &route] { run(call, route); }, is_long)) throw ApiError(options_.full);
}

void Application::run(const std::shared_ptr<Call>& call, const Route& route) const {
  const PauseScope check([&] {
    if (call->is_over()) throw Canceled();
  });
  try {
    if (call->is_over()) throw call->canceled();
    const Json body = fields_in(call->request(), route);
    const RequestObject object(body);
    Fields fields(object, options_.strict);
    route.answer(call, fields);
  } catch (const ApiError& error) {
    call->fail(error);
  } catch (const Canceled&) {
    call->fail(call->canceled());
  } catch (const std::bad_alloc&) {
    call->fail(
        ApiError(ErrorCode::computation, "memory: not enough for this request (choose a shorter text)"));
  } catch (const Error& error) {
    call->fail(ApiError(ErrorCode::invalid, error.what()));
  } catch (const std::exception& error) {
    call->fail(ApiError(ErrorCode::computation, error.what()));
  }
}

}  // namespace heed::server
