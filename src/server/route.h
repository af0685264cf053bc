// The table of routes of an application: what requests are sent to, counted and documented by.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/call.h"
#include "server/fields.h"

namespace heed::server {

/// A form of a route's answer. The members of its JSON are held by a test: every answer of tests has them.
struct AnswerForm {
  std::string shape =
      {};  ///< of its JSON, or of that of each event, as shape_schema() takes it; empty: a text
  std::string type = "application/json";
  int status = 200;
};

struct Route {
  const char* method;
  std::vector<const char*> paths;  ///< the first names it; `{…}` at the end stands for the rest of a path
  ErrorForm errors;
  const char* topic;  ///< of the documentation, which has the fields of its routes together
  const char* summary;
  std::vector<AnswerForm> answers = {};
  /// Answers, now or later. Throws Error for what is wrong with the request.
  std::function<void(const std::shared_ptr<Call>& call, Fields& fields)> answer = {};
  /// Passes the fields of its JSON object, as `answer` does; empty: it has none, and its body is not read.
  std::function<void(Fields& fields)> walk = {};
  bool is_public = false;  ///< needs no key or token
  bool any_host = false;   ///< answers whatever Host it is asked for
  bool is_form = false;    ///< its fields are those of a form (multipart/form-data)
  bool at_once = false;    ///< answers on the network's thread, which it does not hold up
  bool is_always = false;  ///< answers once the server is to stop, too
  bool is_large = false;   ///< its body may be large: ServerLimits::large_body_bytes
};

/// The parts of a form with a file, by their names; they refer to the body of its request.
using FormFiles = std::vector<std::pair<std::string, std::string_view>>;

/// Those of a form that is answered.
FormFiles files_of(const HttpRequest& request);

/// The route of a path and a method (HEAD is as GET); null if there is none. `methods`, if given, receives
/// those that the path has.
const Route* find_route(const std::vector<Route>& routes, std::string_view method, std::string_view path,
                        std::string* methods = nullptr);

inline constexpr const char* kDocumentPath = "/openapi.json";
/// The route of that path, which an Application answers.
Route document_route(const char* topic);

/// The fields of a route, in order.
std::vector<FieldNote> fields_of(const Route& route);

/// The JSON Schema of a shape: JSON whose texts are types (`string`, `integer|null`, `any`) or, after `=`,
/// words (`=stop|length`). An array has elements of a shape, or of several. A member `NAME?` may be absent,
/// `*` stands for any other name, and `{"|": [...]}` is one of several shapes.
Json shape_schema(const Json& shape);
/// The shape of error_json().
const char* error_shape(ErrorForm form);

/// The routes as an OpenAPI 3.1 document. The events of an answer are described as `x-event`.
Json openapi(const std::vector<Route>& routes, const std::string& title);

/// The fields of the routes as tables in Markdown, a table for each topic.
std::string field_tables(const std::vector<Route>& routes);

}  // namespace heed::server
