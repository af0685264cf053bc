// Tool calls in the answer of a model, in the formats that common chat templates use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

/// How a model writes calls. ARGUMENTS is a JSON object.
enum class ToolCallFormat : std::uint8_t {
  none,    ///< none that is known
  hermes,  ///< Hermes, Qwen: `<tool_call>{"name": NAME, "arguments": ARGUMENTS}</tool_call>`; SmolLM2: a list
           ///< of these within
  qwen_coder,  ///< Qwen3-Coder: `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function>
               ///< </tool_call>`, with texts as they are and other values as JSON
  llama,       ///< Llama 3: `{"name": NAME, "parameters": ARGUMENTS}` as the whole answer or after
          ///< `<|python_tag|>`, `<|python_tag|>NAME.call(KEY=VALUE)`, `<function=NAME>ARGUMENTS</function>`
  mistral,   ///< `[TOOL_CALLS][{"name": NAME, "arguments": ARGUMENTS}]`, `[TOOL_CALLS]NAME[ARGS]ARGUMENTS`
  deepseek,  ///< `<｜tool▁calls▁begin｜>` and calls of name and arguments between marks
  pythonic,  ///< `[NAME(KEY=VALUE, ...)]` with Python's literals, also in ```` ```tool_code ````, where
             ///< `print()` may be around it, or `<|tool_call_start|>`
  granite,   ///< Granite 3, Phi-4-mini: `<|tool_call|>[{"name": NAME, "arguments": ARGUMENTS}]`; Phi also
             ///< `functools[...]`
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

/// Splits an answer into content and calls of `tools`, OpenAI's JSON array of `{"type": "function",
/// "function":
/// {"name": ..., "parameters": SCHEMA}}`. The answer must be decoded with its special tokens, because the
/// marks of some formats are special tokens. A call has the name of a tool and its arguments: an object, a
/// string that contains one, or nothing beside the name; both keys, `arguments` and `parameters`, are
/// accepted. What is no whole call stays in the content, and so does a call before the last `</think>`, which
/// is only considered, and one in a code span or block, which is quoted. Throws Error `tools: ...` if `tools`
/// is not such an array.
ParsedToolCalls parse_tool_calls(std::string_view answer, ToolCallFormat format, std::string_view tools);

/// The same for an answer that arrives piece by piece. Content is returned as soon as it cannot be part of a
/// call. Threads: one at a time.
class ToolCallStream {
 public:
  ToolCallStream(ToolCallFormat format, std::string tools) : format_(format), tools_(std::move(tools)) {}
  /// Takes more of the answer and returns content. From the first mark of a call on, it returns none.
  std::string push(std::string_view text);
  /// The result of parse_tool_calls() for the whole answer, without the content that push() returned.
  ParsedToolCalls finish() const;

 private:
  ToolCallFormat format_;
  std::string tools_;
  std::string answer_;
  std::size_t given_ = 0;  // bytes
  bool holds_ = false;
};

}  // namespace heed
