// The formats in which models write calls, and their readers.
#include "heed/chat/tool_calls.h"

#include <optional>

#include "chat/python_calls.h"
#include "core/json.h"
#include "heed/error.h"

namespace heed {
namespace {

using chat::Calls;

constexpr std::string_view kWhiteSpace = " \t\r\n";
constexpr int kMostMalformed = 100;  // marks without a call, after which all is content

std::string_view without_space_before(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
  return text;
}
std::string_view without_space_after(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kWhiteSpace) + 1);
}

/// Removes `mark` and white space before it from the start of `text`; returns whether it was there.
bool take_mark(std::string_view& text, std::string_view mark) {
  const std::string_view rest = without_space_before(text);
  if (rest.substr(0, mark.size()) != mark) return false;
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

/// Makes a call of a name and its arguments, which may be null.
std::optional<ToolCall> call_of(std::string name, const Json& arguments) {
  if (name.empty()) return std::nullopt;
  if (arguments.is_null()) return ToolCall{std::move(name), "{}"};
  if (arguments.is_object()) return ToolCall{std::move(name), json_text(arguments)};
  if (!arguments.is_string()) return std::nullopt;
  std::string_view text = arguments.get_ref<const std::string&>();
  const auto object = take_json(text);
  if (!object || !object->is_object() || !without_space_before(text).empty()) return std::nullopt;
  return ToolCall{std::move(name), json_text(*object)};
}

/// Appends the call that an object is, or the calls of a list. Returns false, and appends none, if one is
/// not.
bool append_calls(const Json& value, Calls& calls) {
  Calls found;
  for (const Json& one : value.is_array() ? value : Json::array({value})) {
    if (!one.is_object() || !one.contains("name") || !one["name"].is_string()) return false;
    const auto arguments = one.find(one.contains("arguments") ? "arguments" : "parameters");
    auto call = call_of(one["name"], arguments == one.end() ? Json() : *arguments);
    if (!call) return false;
    found.push_back(std::move(*call));
  }
  calls.insert(calls.end(), found.begin(), found.end());
  return !found.empty();
}

bool take_json_calls(std::string_view& text, Calls& calls) {
  std::string_view rest = text;
  const auto value = take_json(rest);
  if (!value || !append_calls(*value, calls)) return false;
  text = rest;
  return true;
}

bool take_hermes(std::string_view& text, Calls& calls) {
  if (!take_mark(text, "<tool_call>") || !take_json_calls(text, calls)) return false;
  return take_mark(text, "</tool_call>") || without_space_before(text).empty();
}

/// Objects one after another, which a semicolon may separate.
bool take_llama(std::string_view& text, Calls& calls) {
  take_mark(text, "<|python_tag|>");
  bool any = false;
  while (!without_space_before(text).empty() && take_json_calls(text, calls)) {
    any = true;
    take_mark(text, ";");
  }
  for (const char* end : {"<|eom_id|>", "<|eot_id|>"}) take_mark(text, end);
  return any;
}

bool take_mistral(std::string_view& text, Calls& calls) {
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

constexpr std::string_view kDeepseekBegin = "<｜tool▁calls▁begin｜>", kDeepseekCall = "<｜tool▁call▁begin｜>";

/// `function`, a separator, the name and arguments in a block of code; or the name, a separator and
/// arguments.
bool take_deepseek(std::string_view& text, Calls& calls) {
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

bool take_pythonic(std::string_view& text, Calls& calls) {
  std::string_view end;
  if (take_mark(text, "<|tool_call_start|>")) {
    end = "<|tool_call_end|>";
  } else if (take_mark(text, "```tool_code")) {
    end = "```";
  } else if (without_space_before(text).substr(0, 1) != "[") {
    return false;
  }
  if (!chat::take_python_calls(text, calls)) return false;
  return end.empty() ? without_space_before(text).empty() : take_mark(text, end) || text.empty();
}

/// What a call begins with in the middle of an answer.
std::vector<std::string_view> marks_of(ToolCallFormat format) {
  switch (format) {
    case ToolCallFormat::none: return {};
    case ToolCallFormat::hermes: return {"<tool_call>"};
    case ToolCallFormat::llama: return {"<|python_tag|>"};
    case ToolCallFormat::mistral: return {"[TOOL_CALLS]"};
    case ToolCallFormat::deepseek: return {kDeepseekBegin};
    case ToolCallFormat::pythonic: return {"<|tool_call_start|>", "```tool_code"};
  }
  return {};
}

/// Removes calls from the start of `text`. Returns false, and changes nothing, if it does not begin with any.
bool take_calls(std::string_view& text, ToolCallFormat format, Calls& calls) {
  std::string_view rest = text;
  const std::size_t before = calls.size();
  const auto take = [&] {
    switch (format) {
      case ToolCallFormat::none: return false;
      case ToolCallFormat::hermes: return take_hermes(rest, calls);
      case ToolCallFormat::llama: return take_llama(rest, calls);
      case ToolCallFormat::mistral: return take_mistral(rest, calls);
      case ToolCallFormat::deepseek: return take_deepseek(rest, calls);
      case ToolCallFormat::pythonic: return take_pythonic(rest, calls);
    }
    return false;
  };
  if (take()) {
    text = rest;
    return true;
  }
  calls.resize(before);
  return false;
}

}  // namespace

ToolCallFormat tool_call_format(std::string_view chat_template) {
  const auto has = [chat_template](std::string_view mark) {
    return chat_template.find(mark) != chat_template.npos;
  };
  if (has("[TOOL_CALLS]")) return ToolCallFormat::mistral;
  if (has(kDeepseekBegin)) return ToolCallFormat::deepseek;
  if (has("<tool_call>")) return ToolCallFormat::hermes;
  if (has("<|tool_call_start|>") || has("tool_code") || has("[func_name1(")) return ToolCallFormat::pythonic;
  if (has("<|python_tag|>") || has("\"parameters\": dictionary of argument name"))
    return ToolCallFormat::llama;
  return ToolCallFormat::none;
}

ParsedToolCalls parse_tool_calls(std::string_view answer, ToolCallFormat format) {
  ParsedToolCalls result;
  std::string_view text = answer;
  // Without a mark, calls are the whole answer.
  if (take_calls(text, format, result.calls) && without_space_before(text).empty()) return result;
  result.calls.clear();
  text = answer;
  const auto add_content = [&](std::string_view part) {
    if (!result.content.empty() && !part.empty()) result.content += '\n';
    result.content += part;
  };
  std::size_t from = 0;
  for (int malformed = 0; malformed < kMostMalformed;) {
    std::size_t begin = text.npos;
    for (const std::string_view mark : marks_of(format)) begin = std::min(begin, text.find(mark, from));
    if (begin == text.npos) break;
    std::string_view rest = text.substr(begin);
    const bool any_before = !result.calls.empty();
    if (!take_calls(rest, format, result.calls)) {
      from = begin + 1;
      ++malformed;
      continue;
    }
    from = 0;
    const std::string_view before = text.substr(0, begin);
    add_content(without_space_after(any_before ? without_space_before(before) : before));
    text = rest;
  }
  add_content(result.calls.empty() ? text : without_space_before(text));
  return result;
}

std::string ToolCallStream::push(std::string_view text) {
  answer_ += text;
  if (holds_) return {};
  const std::size_t first = answer_.find_first_not_of(kWhiteSpace);
  if (first == answer_.npos) return {};
  const bool bare = format_ == ToolCallFormat::llama || format_ == ToolCallFormat::mistral ||
                    format_ == ToolCallFormat::pythonic;
  if (bare && (answer_[first] == '{' || answer_[first] == '[')) {
    holds_ = true;
    return {};
  }
  // What may be the beginning of a mark, and white space before it, is not given out yet.
  std::size_t end = answer_.size();
  for (const std::string_view mark : marks_of(format_)) {
    const std::size_t found = answer_.find(mark, given_);
    if (found != answer_.npos) {
      holds_ = true;
      end = std::min(end, found);
    }
    for (std::size_t length = std::min(mark.size() - 1, answer_.size() - given_); length > 0; --length) {
      if (!answer_.ends_with(mark.substr(0, length))) continue;
      end = std::min(end, answer_.size() - length);
      break;
    }
  }
  const std::string_view rest = std::string_view(answer_).substr(given_, end - given_);
  const std::string content(format_ == ToolCallFormat::none ? rest : without_space_after(rest));
  given_ += content.size();
  return content;
}

ParsedToolCalls ToolCallStream::finish() const {
  ParsedToolCalls parsed = parse_tool_calls(answer_, format_);
  parsed.content.erase(0, given_);
  return parsed;
}

}  // namespace heed
