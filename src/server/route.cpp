// Finding routes, and what is written of them.
#include "server/route.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "heed/version.h"
#include "server/messages.h"

namespace heed::server {
namespace {

// Whether a path is that of a route; `{…}` matches one character or more.
bool matches(std::string_view pattern, std::string_view path) {
  const std::size_t open = pattern.find('{');
  if (open == pattern.npos) return path == pattern;
  return path.size() > open && path.substr(0, open) == pattern.substr(0, open);
}

Json number_of(double x) { return x == std::floor(x) ? Json(static_cast<std::int64_t>(x)) : Json(x); }

// Bounds beyond 2^30 keep numbers finite, and tell a reader nothing.
bool is_told(double bound) { return std::abs(bound) <= 0x1p30; }

Json schema_of(const std::vector<FieldNote>& fields, bool is_form);

Json property_of(const FieldNote& field, bool is_form) {
  Json one = {{"description", field.note}};
  if (field.type != "any") one["type"] = field.type;
  if (field.type == "any" && is_form) one["type"] = "array";
  Json* value = &one;  // that the rule is of
  if (field.type == "array" && (is_told(field.rule.least) || is_told(field.rule.most))) value = &one["items"];
  if (is_told(field.rule.least)) (*value)["minimum"] = number_of(field.rule.least);
  if (is_told(field.rule.most)) (*value)["maximum"] = number_of(field.rule.most);
  if (!field.rule.words.empty()) one["enum"] = field.rule.words;
  if (field.rule.items > 0) one[field.type == "object" ? "maxProperties" : "maxItems"] = field.rule.items;
  if (field.rule.bytes > 0) one["maxLength"] = field.rule.bytes;
  if (field.rule.schema != nullptr && !is_form) one.update(parse_json(field.rule.schema, field.name));
  if (!field.fallback.is_null()) one["default"] = field.fallback;
  if (field.members.empty()) return one;
  Json members = schema_of(field.members, is_form);
  if (field.type == "array") {
    one["items"] = std::move(members);
  } else {
    one.update(members);
  }
  return one;
}

Json schema_of(const std::vector<FieldNote>& fields, bool is_form) {
  Json properties = Json::object(), required = Json::array();
  for (const FieldNote& field : fields) {
    if (field.type == "refused") continue;
    properties[is_form && field.type == "any" ? field.name + "[]" : field.name] = property_of(field, is_form);
    if (field.rule.required != nullptr) required.push_back(field.name);
  }
  Json schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

const char* name_of(ErrorForm form) {
  switch (form) {
    case ErrorForm::openai: return "Error";
    case ErrorForm::tei: return "TeiError";
    case ErrorForm::message: return "Message";
  }
  HEED_ASSERT(false, "unknown form");
}

Json any_of(const Json& shapes) {
  if (shapes.size() == 1) return shape_schema(shapes.front());
  Json schemas = Json::array();
  for (const Json& one : shapes) schemas.push_back(shape_schema(one));
  return {{"anyOf", std::move(schemas)}};
}

// Texts between bars.
Json words_of(std::string_view text) {
  Json words = Json::array();
  while (true) {
    const std::size_t end = text.find('|');
    words.push_back(text.substr(0, end));
    if (end == text.npos) return words;
    text.remove_prefix(end + 1);
  }
}

// The schema of an answer, beside those of the same type.
void add_answer(Json& content, const AnswerForm& form, const std::string& error) {
  const Json schema =
      form.shape.empty() ? Json{{"type", "string"}} : shape_schema(parse_json(form.shape, "shape"));
  if (form.type == kEventsType) {
    content[form.type] = {{"schema", {{"type", "string"}}},
                          {"x-event", {{"anyOf", {schema, {{"$ref", error}}}}}}};
    return;
  }
  Json& known = content[form.type]["schema"];
  if (known.is_null()) {
    known = schema;
  } else if (known.contains("anyOf")) {
    known["anyOf"].push_back(schema);
  } else {
    known = {{"anyOf", {known, schema}}};
  }
}

Json operation_of(const Route& route, const std::string& path) {
  Json operation = {{"summary", route.summary}, {"tags", {route.topic}}};
  const std::string error = std::string("#/components/schemas/") + name_of(route.errors);
  Json& responses = operation["responses"];
  responses["default"] = {{"description", "What is wrong"}};
  responses["default"]["content"]["application/json"]["schema"]["$ref"] = error;
  if (route.answers.empty()) responses["200"]["description"] = "The answer";
  for (const AnswerForm& form : route.answers) {
    Json& response = responses[std::to_string(form.status)];
    response["description"] = "The answer";
    add_answer(response["content"], form, error);
  }
  if (route.walk) {
    operation["requestBody"]["required"] = true;
    const char* type = route.is_form ? "multipart/form-data" : "application/json";
    operation["requestBody"]["content"][type]["schema"] = schema_of(fields_of(route), route.is_form);
  }
  if (const std::size_t open = path.find('{'); open != path.npos) {
    const std::string name = path.substr(open + 1, path.size() - open - 2);
    Json parameter = {{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}};
    operation["parameters"] = Json::array({std::move(parameter)});
  }
  if (!route.is_public) {
    Json key = {{"key", Json::array()}};
    operation["security"] = Json::array({Json::object(), std::move(key)});
  }
  return operation;
}

std::string size_of(const FieldRule& rule) {
  std::string size;
  if (rule.items > 0) size += fmt::format(", at most {}", rule.items);
  if (rule.bytes > 0) size += fmt::format(", {}at most {} bytes", rule.items > 0 ? "each " : "", rule.bytes);
  return size;
}

// A row of a table: a field that some routes of a topic declare alike.
struct Row {
  FieldNote field;
  std::vector<std::string> routes;
};

std::string range_of(const FieldRule& rule) {
  const bool from = is_told(rule.least), to = is_told(rule.most);
  if (!rule.words.empty()) {
    std::string words;
    for (const char* word : rule.words) words += fmt::format("{}`{}`", words.empty() ? "" : ", ", word);
    return words;
  }
  if (from && to) return fmt::format("{} to {}", rule.least, rule.most);
  return from ? fmt::format("{} or more", rule.least) : to ? fmt::format("at most {}", rule.most) : "";
}

void add_rows(std::vector<Row>& rows, const std::vector<FieldNote>& fields, const std::string& before,
              const std::string& route) {
  for (const FieldNote& field : fields) {
    FieldNote named = field;
    named.name = before + field.name;
    named.members.clear();
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
      return row.field.name == named.name && row.field.note == named.note && row.field.type == named.type;
    });
    if (same == rows.end()) {
      rows.push_back({named, {route}});
    } else {
      same->routes.push_back(route);
    }
    add_rows(rows, field.members, named.name + ".", route);
  }
}

std::string row_text(const Row& row, std::size_t routes) {
  const FieldNote& field = row.field;
  std::string what = range_of(field.rule);
  if (what.empty() && field.type != "any") what = field.type == "string" ? "text" : field.type;
  const std::string size = size_of(field.rule);
  what += what.empty() && !size.empty() ? size.substr(2) : size;
  if (!field.fallback.is_null()) what += fmt::format("; `{}`", json_text(field.fallback));
  if (field.rule.required != nullptr) what += what.empty() ? "required" : "; required";
  std::string of;
  if (row.routes.size() < routes) {
    for (const std::string& route : row.routes) of += fmt::format("{}`{}`", of.empty() ? "" : ", ", route);
    of += ": ";
  }
  std::string note = field.note;
  for (std::size_t at = 0; (at = note.find('|', at)) != note.npos; at += 2) note.insert(at, 1, '\\');
  return fmt::format("| `{}` | {} | {}{} |\n", field.name, what, of, note);
}

}  // namespace

const Route* find_route(const std::vector<Route>& routes, std::string_view method, std::string_view path,
                        std::string* methods) {
  const Route* found = nullptr;
  for (const Route& route : routes) {
    for (const char* pattern : route.paths) {
      if (!matches(pattern, path)) continue;
      if (methods != nullptr) *methods += (methods->empty() ? "" : ", ") + std::string(route.method);
      if (route.method == (method == "HEAD" ? "GET" : method)) found = &route;
    }
  }
  return found;
}

Route document_route(const char* topic) {
  Route route{"GET", {kDocumentPath}, ErrorForm::openai, topic, "This document", {{R"({"*": "any"})"}}};
  route.at_once = true;
  return route;
}

const char* error_shape(ErrorForm form) {
  switch (form) {
    case ErrorForm::openai:
      return R"({"error": {"message": "string", "type": "string", "param": "string|null", "code": "string|null"}})";
    case ErrorForm::tei: return R"({"error": "string", "error_type": "string"})";
    case ErrorForm::message: return R"({"error": "string"})";
  }
  HEED_ASSERT(false, "unknown form");
}

Json shape_schema(const Json& shape) {
  if (shape.is_array()) return {{"type", "array"}, {"items", any_of(shape)}};
  if (shape.is_string()) {
    const std::string_view text = shape.get_ref<const std::string&>();
    if (text == "any") return Json::object();
    if (text.starts_with('=')) return {{"enum", words_of(text.substr(1))}};
    const Json types = words_of(text);
    return {{"type", types.size() == 1 ? types.front() : types}};
  }
  if (shape.contains("|")) return any_of(shape["|"]);
  Json schema = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
  for (const auto& [key, value] : shape.items()) {
    if (key == "*") {
      schema["additionalProperties"] = shape_schema(value);
    } else if (key.ends_with('?')) {
      schema["properties"][key.substr(0, key.size() - 1)] = shape_schema(value);
    } else {
      schema["properties"][key] = shape_schema(value);
      schema["required"].push_back(key);
    }
  }
  return schema;
}

std::vector<FieldNote> fields_of(const Route& route) {
  Fields description;
  if (route.walk) route.walk(description);
  return description.notes();
}

Json openapi(const std::vector<Route>& routes, const std::string& title) {
  Json document = {
      {"openapi", "3.1.0"}, {"info", {{"title", title}, {"version", version()}}}, {"paths", Json::object()}};
  for (const Route& route : routes)
    document["components"]["schemas"][name_of(route.errors)] =
        shape_schema(parse_json(error_shape(route.errors), "shape"));
  document["components"]["securitySchemes"]["key"] = {{"type", "http"}, {"scheme", "bearer"}};
  for (const Route& route : routes) {
    for (const std::string path : route.paths)
      document["paths"][path][ascii_lower(route.method)] = operation_of(route, path);
  }
  return document;
}

std::string field_tables(const std::vector<Route>& routes) {
  std::vector<std::string> topics;
  for (const Route& route : routes) {
    if (route.walk && std::find(topics.begin(), topics.end(), route.topic) == topics.end())
      topics.emplace_back(route.topic);
  }
  std::string text;
  for (const std::string& topic : topics) {
    std::vector<Row> rows;
    std::string paths, refused;
    std::size_t count = 0;
    for (const Route& route : routes) {
      if (!route.walk || route.topic != topic) continue;
      ++count;
      paths += fmt::format("{}`{}`", paths.empty() ? "" : ", ", route.paths.front());
      add_rows(rows, fields_of(route), "", route.paths.front());
    }
    text += fmt::format("{}### {}\n{}\n\n| field | values; default | meaning |\n|---|---|---|\n",
                        text.empty() ? "" : "\n", topic, paths);
    for (const Row& row : rows) {
      if (row.field.type == "refused") {
        refused += fmt::format("{}`{}` ({})", refused.empty() ? "" : ", ", row.field.name, row.field.note);
      } else {
        text += row_text(row, count);
      }
    }
    if (!refused.empty()) text += fmt::format("\nNot supported, and refused: {}.\n", refused);
  }
  return text;
}

}  // namespace heed::server
