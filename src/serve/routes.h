// The table of routes: what requests are sent to, counted and documented by.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/services.h"

namespace heed::serve {

/// A field of a request's JSON object.
struct FieldNote {
  const char *name, *type;  ///< a type of JSON Schema; `any` where there are several
  const char* note;
  bool required = false;
};

struct Route {
  const char* method;
  std::vector<const char*> paths;  ///< the first names it; `{…}` at the end stands for the rest of a path
  Api api;
  const char* summary;
  Handler handler = nullptr;  ///< null: answered by the Application itself, at once
  std::vector<FieldNote> fields = {};
  bool is_public = false;  ///< needs no key
  bool is_form = false;    ///< reads multipart/form-data, by its handler, in place of a JSON object
};

const std::vector<Route>& routes();

/// The route of a path and a method (HEAD is as GET); null if there is none. `methods`, if given, receives
/// those that the path has.
const Route* find_route(std::string_view method, std::string_view path, std::string* methods = nullptr);

/// The routes as an OpenAPI 3.1 document.
Json openapi();

}  // namespace heed::serve
