// The formats in which models write calls.
#include "chat/call_reader.h"

#include <algorithm>
#include <set>

#include "core/json_field.h"
#include "heed/error.h"

namespace heed::chat {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";
constexpr std::string_view kDeepseekBegin = "<｜tool▁calls▁begin｜>", kDeepseekCall = "<｜tool▁call▁begin｜>";

/// Removes `mark` and white space before it from the start of `text`; returns whether it was there.
bool take_mark(std::string_view& text, std::string_view mark) {
  const std::string_view rest = without_space_before(text);
  if (!rest.starts_with(mark)) return false;
  text = rest.substr(mark.size());
  return true;
}

/// Removes a JSON object or array from the start of `text`.
std::optional<Json> take_json(std::string_view& text) {
  const std::string_view rest = without_space_before(text);
  if (rest.empty() || (rest[0] != '{' && rest[0] != '[')) return std::nullopt;
  std::size_t depth = 0, at = 0;
  for (bool in_string = false; at < rest.size(); ++at) {
    const char c = rest[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      break;
    }
  }
  if (at >= rest.size()) return std::nullopt;
  try {
    Json value = parse_json(rest.substr(0, at + 1), "call");
    text = rest.substr(at + 1);
    return value;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Removes `begin`, a name and `>` from the start of `text`, and returns the name.
std::optional<std::string> take_tag(std::string_view& text, std::string_view begin) {
  std::string_view rest = text;
  if (!take_mark(rest, begin)) return std::nullopt;
  const std::size_t end = rest.find_first_of(">\n");
  if (end == rest.npos || rest[end] != '>') return std::nullopt;
  text = rest.substr(end + 1);
  return std::string(rest.substr(0, end));
}

std::string_view json_type(const Json& value) {
  return value.is_null() ? "null" : value.is_number_integer() ? "integer" : value.type_name();
}

/// Adds the types that a schema says a value may have.
void add_types(const Json& schema, std::set<std::string, std::less<>>& types, int depth = 0) {
  constexpr int kDeepest = 8;
  if (!schema.is_object() || depth > kDeepest) return;
  for (const auto& [key, said] : schema.items()) {
    if (key == "type") {
      for (const Json& type : said.is_array() ? said : Json::array({said}))
        if (type.is_string()) types.insert(type.get<std::string>());
    } else if (key == "enum" && said.is_array()) {
      for (const Json& one : said) types.emplace(json_type(one));
    } else if (key == "const") {
      types.emplace(json_type(said));
    } else if ((key == "anyOf" || key == "oneOf") && said.is_array()) {
      for (const Json& branch : said) add_types(branch, types, depth + 1);
    } else if (key == "nullable" && said == Json(true)) {
      types.insert("null");
    }
  }
}

/// A value that is written without quotes: JSON or a word of Python where the schema has it, else a text.
Json unquoted_value(std::string_view text, const Json& schema) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"True", "true"}, {"False", "false"}, {"None", "null"}};
  std::set<std::string, std::less<>> types;
  add_types(schema, types);
  std::string_view json = without_space_before(without_space_after(text));
  for (const auto& [word, meaning] : kWords)
    if (json == word) json = meaning;
  try {
    Json value = parse_json(json, "parameter");
    const std::string_view type = json_type(value);
    const bool fits =
        types.empty() || types.count(type) > 0 || (value.is_number() && types.count("number") > 0);
    const bool may_be_text = types.empty() || types.count("string") > 0;
    if (type == "string" ? !may_be_text : fits || !may_be_text) return value;
  } catch (const Error&) {
  }
  return text;
}

}  // namespace

std::string_view without_space_before(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
  return text;
}
std::string_view without_space_after(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kWhiteSpace) + 1);
}

std::vector<std::string_view> marks_of(ToolCallFormat format) {
  switch (format) {
    case ToolCallFormat::none: return {};
    case ToolCallFormat::hermes: return {"<tool_call>"};
    case ToolCallFormat::qwen_coder: return {"<tool_call>", "<function="};
    case ToolCallFormat::llama: return {"<|python_tag|>", "<function="};
    case ToolCallFormat::mistral: return {"[TOOL_CALLS]"};
    case ToolCallFormat::deepseek: return {kDeepseekBegin};
    case ToolCallFormat::pythonic: return {"<|tool_call_start|>", "```tool_code"};
    case ToolCallFormat::granite: return {"<|tool_call|>", "<tool_call>", "functools["};
  }
  return {};
}

CallReader::CallReader(ToolCallFormat format, std::string_view tools) : format_(format) {
  const Json list = parse_json(tools, "tools");
  const JsonField field(list, "tools");
  for (std::size_t i = 0; i < field.array_size(); ++i) {
    const JsonField function = field.at(i).at("function");
    const auto parameters = function.find("parameters");
    tools_.emplace(function.at("name").string(), parameters ? parameters->value() : Json());
  }
}

bool CallReader::take(std::string_view& text, Calls& calls) const {
  std::string_view rest = text;
  const std::size_t before = calls.size();
  if (take_format(rest, calls)) {
    text = rest;
    return true;
  }
  calls.resize(before);
  return false;
}

bool CallReader::take_format(std::string_view& text, Calls& calls) const {
  switch (format_) {
    case ToolCallFormat::none: return false;
    case ToolCallFormat::hermes: return take_hermes(text, calls);
    case ToolCallFormat::qwen_coder: return take_qwen_coder(text, calls);
    case ToolCallFormat::llama: return take_llama(text, calls);
    case ToolCallFormat::mistral: return take_mistral(text, calls);
    case ToolCallFormat::deepseek: return take_deepseek(text, calls);
    case ToolCallFormat::pythonic: return take_pythonic(text, calls);
    case ToolCallFormat::granite: return take_granite(text, calls);
  }
  return false;
}

std::optional<ToolCall> CallReader::call_of(const std::string& name, const Json& arguments) const {
  if (tools_.find(name) == tools_.end()) return std::nullopt;
  if (arguments.is_null()) return ToolCall{name, "{}"};
  if (arguments.is_object()) return ToolCall{name, json_text(arguments)};
  if (!arguments.is_string()) return std::nullopt;
  std::string_view text = arguments.get_ref<const std::string&>();
  const auto object = take_json(text);
  if (!object || !object->is_object() || !without_space_before(text).empty()) return std::nullopt;
  return ToolCall{name, json_text(*object)};
}

/// Appends the call that an object is, or the calls of a list. Returns false, and appends none, if one is
/// not.
bool CallReader::append_calls(const Json& value, Calls& calls) const {
  Calls found;
  for (const Json& one : value.is_array() ? value : Json::array({value})) {
    if (!one.is_object() || !one.contains("name") || !one["name"].is_string()) return false;
    const auto arguments = one.find(one.contains("arguments") ? "arguments" : "parameters");
    if (arguments == one.end() && one.size() > 1) return false;
    auto call = call_of(one["name"], arguments == one.end() ? Json() : *arguments);
    if (!call) return false;
    found.push_back(std::move(*call));
  }
  calls.insert(calls.end(), found.begin(), found.end());
  return !found.empty();
}

bool CallReader::take_json_calls(std::string_view& text, Calls& calls) const {
  std::string_view rest = text;
  const auto value = take_json(rest);
  if (!value || !append_calls(*value, calls)) return false;
  text = rest;
  return true;
}

bool CallReader::take_hermes(std::string_view& text, Calls& calls) const {
  if (!take_mark(text, "<tool_call>") || !take_json_calls(text, calls)) return false;
  return take_mark(text, "</tool_call>") || without_space_before(text).empty();
}

/// Removes parameters up to the end of their function. The end of a value is that after which a parameter or
/// the end of the function follows.
bool CallReader::take_parameters(std::string_view& text, const Json& schemas, Json& arguments) const {
  constexpr std::string_view kBegin = "<parameter=", kEnd = "</parameter>", kEndOfFunction = "</function>";
  while (!take_mark(text, kEndOfFunction)) {
    const auto key = take_tag(text, kBegin);
    if (!key || key->empty() || arguments.contains(*key)) return false;
    std::size_t end = text.find(kEnd);
    for (; end != text.npos; end = text.find(kEnd, end + 1)) {
      const std::string_view after = without_space_before(text.substr(end + kEnd.size()));
      if (after.starts_with(kBegin) || after.starts_with(kEndOfFunction)) break;
    }
    if (end == text.npos) return false;
    std::string_view value = text.substr(0, end);
    if (value.starts_with('\n')) value.remove_prefix(1);
    if (value.ends_with('\n')) value.remove_suffix(1);
    const auto schema = schemas.find(*key);
    arguments[*key] = unquoted_value(value, schema == schemas.end() ? Json() : *schema);
    text.remove_prefix(end + kEnd.size());
  }
  return true;
}

bool CallReader::take_qwen_coder(std::string_view& text, Calls& calls) const {
  const bool marked = take_mark(text, "<tool_call>");
  bool any = marked && take_json_calls(text, calls);
  while (const auto name = take_tag(text, "<function=")) {
    const auto tool = tools_.find(*name);
    const Json schema = tool == tools_.end() ? Json() : tool->second;
    const bool described = schema.is_object() && schema.contains("properties");
    Json arguments = Json::object();
    if (!take_parameters(text, described ? schema["properties"] : Json(), arguments)) return false;
    auto call = call_of(*name, arguments);
    if (!call) return false;
    calls.push_back(std::move(*call));
    any = true;
  }
  return any && (take_mark(text, "</tool_call>") || !marked || without_space_before(text).empty());
}

/// Objects one after another, which a semicolon may separate; or calls in the syntax of Python or of tags.
bool CallReader::take_llama(std::string_view& text, Calls& calls) const {
  const bool marked = take_mark(text, "<|python_tag|>");
  bool any = false;
  while (!without_space_before(text).empty() && take_json_calls(text, calls)) {
    any = true;
    take_mark(text, ";");
  }
  while (const auto name = any && marked ? std::nullopt : take_tag(text, "<function=")) {
    const auto arguments = take_json(text);
    auto call = arguments && arguments->is_object() ? call_of(*name, *arguments) : std::nullopt;
    if (!call || !take_mark(text, "</function>")) return false;
    calls.push_back(std::move(*call));
    any = true;
  }
  Calls builtin;
  if (!any && marked && take_python_calls(text, builtin)) {
    for (ToolCall& call : builtin) {
      constexpr std::string_view kCall = ".call";
      if (tools_.find(call.name) == tools_.end() && call.name.ends_with(kCall))
        call.name.resize(call.name.size() - kCall.size());
      if (tools_.find(call.name) == tools_.end()) return false;
    }
    calls.insert(calls.end(), builtin.begin(), builtin.end());
    any = true;
  }
  for (const char* end : {"<|eom_id|>", "<|eot_id|>"}) take_mark(text, end);
  return any;
}

bool CallReader::take_mistral(std::string_view& text, Calls& calls) const {
  const bool marked = take_mark(text, "[TOOL_CALLS]");
  if (take_json_calls(text, calls)) return marked || without_space_before(text).empty();
  if (!marked) return false;
  std::string_view rest = without_space_before(text);
  const std::string name(rest.substr(0, rest.find_first_of("[{ \t\r\n")));
  rest.remove_prefix(name.size());
  if (take_mark(rest, "[CALL_ID]")) rest.remove_prefix(std::min(rest.find('['), rest.size()));
  take_mark(rest, "[ARGS]");
  const auto arguments = take_json(rest);
  auto call = arguments ? call_of(name, *arguments) : std::nullopt;
  if (!call) return false;
  calls.push_back(std::move(*call));
  text = rest;
  return true;
}

/// `function`, a separator, the name and arguments in a block of code; or the name, a separator and
/// arguments.
bool CallReader::take_deepseek(std::string_view& text, Calls& calls) const {
  constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  Calls found;
  if (!take_mark(text, kDeepseekBegin)) return false;
  while (take_mark(text, kDeepseekCall)) {
    const std::size_t separator = text.find(kSeparator);
    if (separator == text.npos) return false;
    std::string_view name = text.substr(0, separator);
    text.remove_prefix(separator + kSeparator.size());
    const bool in_code = without_space_before(text).substr(0, 1) != "{";
    if (in_code) {
      name = without_space_before(text);
      name = name.substr(0, name.find('\n'));
      text = without_space_before(text).substr(name.size());
      if (!take_mark(text, "```json")) return false;
    }
    const auto arguments = take_json(text);
    auto call = arguments ? call_of(std::string(without_space_after(without_space_before(name))), *arguments)
                          : std::nullopt;
    if (!call || (in_code && !take_mark(text, "```"))) return false;
    found.push_back(std::move(*call));
    if (!take_mark(text, "<｜tool▁call▁end｜>")) break;
  }
  take_mark(text, "<｜tool▁calls▁end｜>");
  calls.insert(calls.end(), found.begin(), found.end());
  return !found.empty();
}

bool CallReader::take_pythonic(std::string_view& text, Calls& calls) const {
  std::string_view end;
  if (take_mark(text, "<|tool_call_start|>")) {
    end = "<|tool_call_end|>";
  } else if (take_mark(text, "```tool_code")) {
    end = "```";
  } else if (without_space_before(text).substr(0, 1) != "[") {
    return false;
  }
  Calls found;
  if (!take_python_calls(text, found)) return false;
  while (!end.empty() && !text.starts_with(end) && take_python_calls(text, found)) continue;
  const bool known = std::all_of(found.begin(), found.end(), [this](const ToolCall& call) {
    return tools_.find(call.name) != tools_.end();
  });
  if (!known) return false;
  calls.insert(calls.end(), found.begin(), found.end());
  return end.empty() ? without_space_before(text).empty() : take_mark(text, end) || text.empty();
}

bool CallReader::take_granite(std::string_view& text, Calls& calls) const {
  if (without_space_before(text).starts_with("<tool_call>")) return take_hermes(text, calls);
  if (!take_mark(text, "<|tool_call|>") && !take_mark(text, "functools")) return false;
  if (!take_json_calls(text, calls)) return false;
  take_mark(text, "<|/tool_call|>");
  return true;
}

}  // namespace heed::chat
