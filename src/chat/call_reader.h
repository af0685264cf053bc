// Readers of calls of functions: one for each format, and one for Python's syntax.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "heed/chat/tool_calls.h"

namespace heed::chat {

using Calls = std::vector<ToolCall>;

std::string_view without_space_before(std::string_view text);
std::string_view without_space_after(std::string_view text);

/// Reads what begins with calls of given tools.
class CallReader {
 public:
  /// `tools` as parse_tool_calls() takes them.
  CallReader(ToolCallFormat format, std::string_view tools);

  /// Removes calls from the start of `text`. Returns false, and changes nothing, if it does not begin with
  /// any.
  bool take(std::string_view& text, Calls& calls) const;

 private:
  bool take_format(std::string_view& text, Calls& calls) const;
  bool take_json_calls(std::string_view& text, Calls& calls) const;
  bool take_hermes(std::string_view& text, Calls& calls) const;
  bool take_qwen_coder(std::string_view& text, Calls& calls) const;
  bool take_parameters(std::string_view& text, const Json& schemas, Json& arguments) const;
  bool take_llama(std::string_view& text, Calls& calls) const;
  bool take_mistral(std::string_view& text, Calls& calls) const;
  bool take_deepseek(std::string_view& text, Calls& calls) const;
  bool take_pythonic(std::string_view& text, Calls& calls) const;
  bool take_granite(std::string_view& text, Calls& calls) const;
  bool append_calls(const Json& value, Calls& calls) const;
  /// A call of a name and its arguments, which may be null.
  std::optional<ToolCall> call_of(const std::string& name, const Json& arguments) const;

  ToolCallFormat format_;
  std::map<std::string, Json, std::less<>> tools_;  // schemas of the arguments by name
};

/// What a call begins with in the middle of an answer.
std::vector<std::string_view> marks_of(ToolCallFormat format);

/// Removes `[f(x=1), g()]`, `f(x=1)` or `print(f(x=1))` from the start of `text`, and white space around it.
/// Returns false if it does not begin like this.
bool take_python_calls(std::string_view& text, Calls& calls);

}  // namespace heed::chat
