// Tool calls in the answer of a model, in the formats that common chat templates use.
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

/// Splits an answer into content and calls. The answer must be decoded with its special tokens, because the
/// marks of some formats are special tokens. An incomplete call stays in the content. Arguments may also be a
/// string that contains a JSON object, or missing (an empty object); both names, `arguments` and
/// `parameters`, are accepted.
ParsedToolCalls parse_tool_calls(std::string_view answer, ToolCallFormat format);

/// The same for an answer that arrives piece by piece. Content is returned as soon as it cannot be part of a
/// call. Threads: one at a time.
class ToolCallStream {
 public:
  explicit ToolCallStream(ToolCallFormat format) : format_(format) {}
  /// Takes more of the answer and returns content. From the first mark of a call on, it returns none.
  std::string push(std::string_view text);
  /// The result of parse_tool_calls() for the whole answer, without the content that push() returned.
  ParsedToolCalls finish() const;

 private:
  ToolCallFormat format_;
  std::string answer_;
  std::size_t given_ = 0;  // bytes
  bool holds_ = false;
};

}  // namespace heed
