// Schemas, patterns, choices and calls of functions as grammars.
#include "serve/generation/text_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/strings.h"

namespace heed::serve {
namespace {

using server::RequestObject;

// What the answer may be, as OpenAI, llama.cpp and vLLM name it, vLLM in two ways.
class Constraint {
 public:
  explicit Constraint(TextRequest& request) : request_(request) {}

  void response_format(const Json* given) {
    if (given == nullptr) return;
    const RequestObject format(*given, "response_format");
    const std::string type = format.string("type").value_or("text");
    const auto wrapped = format.members("json_schema");
    const Json* schema = wrapped ? wrapped->object("schema") : format.object("schema");
    if (type == "json_schema" && schema == nullptr) refuse(*given, "json_schema with a schema");
    if (type == "json_schema" || (type == "json_object" && schema != nullptr)) {
      constrain("response_format", [&] { return Grammar::json_schema(json_text(*schema)); });
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
    constrain(where, [&] { return Grammar::json_schema(text, where); });
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
};

}  // namespace

void read_constraint(const Fields& fields, const TextFields& given, TextRequest& request) {
  Constraint constraint(request);
  constraint.response_format(given.response_format);
  constraint.schema(given.json_schema, "json_schema");
  constraint.schema(given.guided_json, "guided_json");
  constraint.pattern(given.guided_regex, "guided_regex");
  if (fields.reads()->find("guided_choice") != nullptr)
    constraint.choices(given.guided_choice, "guided_choice");
  constraint.outputs(given.structured_outputs);
}

namespace {

// Functions that templates can show and grammars can call.
void check_tools(const Json& tools) {
  constexpr std::size_t kLongestName = 64;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string path = "tools." + std::to_string(i);
    if (!tools[i].is_object())
      throw ApiError(ErrorCode::invalid,
                     "request: " + path + ": expected an object, got " + json_shown(tools[i]), path);
    const RequestObject tool(tools[i], path);
    const auto function = tool.members("function");
    if (!function) tool.fail("function", "an object with a name");
    const std::string name = function->string("name").value_or("");
    const bool known = std::all_of(
        name.begin(), name.end(), [](char c) { return is_ascii_letter_or_digit(c) || c == '_' || c == '-'; });
    if (!known || name.empty() || name.size() > kLongestName)
      function->fail("name", "1 to 64 letters, digits, _ and -");
  }
}

}  // namespace

// Which calls the answer may have: `auto` by default, or none, or one that it must have.
void read_tools(const RequestContext& context, const ChatFields& given, TextRequest& request) {
  const ServedModel& model = context.model;
  const Fields& fields = context.fields;
  const Json* choice = given.tool_choice;
  std::string only, how = "auto";
  if (choice != nullptr && choice->is_string()) {
    how = choice->get<std::string>();
  } else if (choice != nullptr) {
    const auto function =
        choice->is_object() ? RequestObject(*choice, "tool_choice").members("function") : std::nullopt;
    const auto name = function ? function->string("name") : std::nullopt;
    if (!name || name->empty()) fields.fail("tool_choice", "auto, none, required or the name of a function");
    only = *name;
    how = "required";
  }
  if (how != "auto" && how != "none" && how != "required")
    fields.fail("tool_choice", "auto, none, required or the name of a function");
  const Json* tools = given.tools;
  if (tools != nullptr) check_tools(*tools);
  if (how == "none") return;
  if (tools == nullptr || tools->empty()) {
    if (how == "required") fields.fail("tool_choice", "auto or none, as there are no tools");
    return;
  }
  if (!model.has_chat || !model.opened.chat_templates().reads_tools())
    throw ApiError(ErrorCode::not_supported,
                   "request: tools: expected none, as the chat template of " + model.name +
                       " has no place for them (response_format and guided_json give answers in JSON)",
                   "tools");
  if (request.grammar && how == "auto") return;  // the answer is what the grammar says, and no call
  if (request.grammar)
    fields.fail("tool_choice",
                "auto or none with " + request.grammar->where() + ", which says what the answer is");
  request.calls = model.opened.chat_templates().tool_calls();
  request.tools = json_text(*tools);
  if (how == "auto") return;
  ToolCallMarks marks;
  const auto mistral = model.tokenizer().token_to_id("[TOOL_CALLS]");
  if (request.calls == ToolCallFormat::mistral && mistral) {
    request.prompts.front().push_back(*mistral);  // which no grammar can write
    marks = {"[", "]", "arguments"};
  } else if (request.calls != ToolCallFormat::hermes) {
    request.calls = ToolCallFormat::llama;  // plain JSON, which every model can be made to write
    marks = {"", "", "parameters"};
  }
  try {
    request.grammar = Grammar::tool_calls(json_text(*tools), marks, only);
  } catch (const Error& error) {
    throw ApiError(ErrorCode::invalid, std::string("request: ") + error.what(), "tools");
  }
}

}  // namespace heed::serve
