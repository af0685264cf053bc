// Calls of functions in what a model answered, in the formats of the chat templates that are in use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

/// How a model writes calls. ARGUMENTS is a JSON object.
enum class ToolCallFormat : std::uint8_t {
  none,    ///< none that is known
  hermes,  ///< Hermes, Qwen: `<tool_call>{"name": NAME, "arguments": ARGUMENTS}</tool_call>`; SmolLM2: a list
           ///< of these within
  llama,   ///< Llama 3: `{"name": NAME, "parameters": ARGUMENTS}` as the whole answer or after
           ///< `<|python_tag|>`
  mistral,   ///< `[TOOL_CALLS][{"name": NAME, "arguments": ARGUMENTS}]`, `[TOOL_CALLS]NAME[ARGS]ARGUMENTS`
  deepseek,  ///< `<｜tool▁calls▁begin｜>` and calls of name and arguments between marks
  pythonic,  ///< `[NAME(KEY=VALUE, ...)]` with Python's literals, also in ```` ```tool_code ```` or
             ///< `<|tool_call_start|>`
};

/// Returns the format whose marks a chat template has.
ToolCallFormat tool_call_format(std::string_view chat_template);

struct ToolCall {
  std::string name;
  std::string arguments;  ///< the text of a JSON object
};

struct ParsedToolCalls {
  std::string content;  ///< the rest of the answer, without white space where it meets calls
  std::vector<ToolCall> calls;
};

/// Splits an answer into content and calls. The answer has to be decoded with its special tokens, as some
/// formats' marks are. What is not a whole call stays in the content. Arguments may also be a JSON text of an
/// object, or missing (an empty object); both names of them are accepted.
ParsedToolCalls parse_tool_calls(std::string_view answer, ToolCallFormat format);

/// The same of an answer that comes piece by piece: content is given out as soon as it cannot be part of a
/// call. Threads: one at a time.
class ToolCallStream {
 public:
  explicit ToolCallStream(ToolCallFormat format) : format_(format) {}
  /// Takes more of the answer, and returns content. From the first mark of a call on, none.
  std::string push(std::string_view text);
  /// What parse_tool_calls() finds in the whole answer, without the content that was given out.
  ParsedToolCalls finish() const;

 private:
  ToolCallFormat format_;
  std::string answer_;
  std::size_t given_ = 0;  // bytes
  bool holds_ = false;
};

}  // namespace heed
