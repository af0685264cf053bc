// Schemas, patterns and choices as grammars.
#include "serve/generation/text_request.h"

#include <fmt/format.h>

namespace heed::serve {
namespace {

using server::RequestObject;

// What the answer may be, as OpenAI, llama.cpp and vLLM name it, vLLM in two ways.
class Constraint {
 public:
  Constraint(TextRequest& request, UnsupportedKeywords unsupported)
      : request_(request), unsupported_(unsupported) {}

  void response_format(const Json* given) {
    if (given == nullptr) return;
    const RequestObject format(*given, "response_format");
    const std::string type = format.string("type").value_or("text");
    const auto wrapped = format.members("json_schema");
    const Json* schema = wrapped ? wrapped->object("schema") : format.object("schema");
    if (type == "json_schema" && schema == nullptr) refuse(*given, "json_schema with a schema");
    if (type == "json_schema" || (type == "json_object" && schema != nullptr)) {
      constrain("response_format",
                [&] { return Grammar::json_schema(json_text(*schema), "response_format", unsupported_); });
    } else if (type == "json_object") {
      constrain("response_format", [] { return Grammar::json_object(); });
    } else if (type != "text") {
      format.fail("type", "text, json_object or json_schema");
    }
  }

  // An object, or a text that is one.
  void schema(const Json* given, const std::string& where) {
    if (given == nullptr) return;
    if (!given->is_string() && !given->is_object()) refuse(*given, "a JSON Schema", where);
    const std::string text = given->is_string() ? given->get<std::string>() : json_text(*given);
    constrain(where, [&] { return Grammar::json_schema(text, where, unsupported_); });
  }

  void pattern(const std::optional<std::string>& given, const std::string& where) {
    if (given) constrain(where, [&] { return Grammar::regex(*given, where); });
  }

  void choices(const std::vector<std::string>& given, const std::string& where) {
    constrain(where, [&] { return Grammar::choices(given, where); });
  }

  void outputs(const Json* given) {
    if (given == nullptr) return;
    const RequestObject object(*given, "structured_outputs");
    for (const auto& [name, value] : given->items()) {
      if (name != "json" && name != "regex" && name != "choice" && !value.is_null() && value != false)
        throw ApiError(ErrorCode::not_supported,
                       fmt::format("request: structured_outputs: expected json, regex or choice, got {}",
                                   json_shown(name)),
                       object.path_of(name));
    }
    schema(object.find("json"), object.path_of("json"));
    pattern(object.string("regex"), object.path_of("regex"));
    if (object.find("choice") != nullptr) choices(object.strings("choice"), object.path_of("choice"));
  }

 private:
  [[noreturn]] static void refuse(const Json& got, const char* expected,
                                  const std::string& where = "response_format") {
    throw ApiError(ErrorCode::invalid,
                   fmt::format("request: {}: expected {}, got {}", where, expected, json_shown(got)), where);
  }

  template <class Make>
  void constrain(const std::string& param, const Make& make) {
    if (request_.grammar)
      throw ApiError(ErrorCode::invalid,
                     fmt::format("request: expected one form of the answer, got {} and {}",
                                 request_.grammar->where(), param),
                     param);
    try {
      request_.grammar = make();
    } catch (const Error& error) {
      throw ApiError(ErrorCode::invalid, std::string("request: ") + error.what(), param);
    }
  }

  TextRequest& request_;
  const UnsupportedKeywords unsupported_;
};

}  // namespace

void read_constraint(const Fields& fields, const TextFields& given, TextRequest& request) {
  Constraint constraint(request, given.unsupported());
  constraint.response_format(given.response_format);
  constraint.schema(given.json_schema, "json_schema");
  constraint.schema(given.guided_json, "guided_json");
  constraint.pattern(given.guided_regex, "guided_regex");
  if (fields.reads()->find("guided_choice") != nullptr)
    constraint.choices(given.guided_choice, "guided_choice");
  constraint.outputs(given.structured_outputs);
}

}  // namespace heed::serve
