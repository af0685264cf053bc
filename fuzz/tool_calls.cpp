// Calls of functions in an answer, in every format, and reasoning before it.
#include "heed/chat/tool_calls.h"
#include "heed/chat/reasoning.h"

#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using Format = heed::ToolCallFormat;
  const std::string_view text = heed::fuzz::text_of(data, size);
  heed::tool_call_format(text);
  for (const Format format : {Format::none, Format::hermes, Format::qwen_coder, Format::llama,
                              Format::mistral, Format::deepseek, Format::pythonic, Format::granite}) {
    const heed::ParsedToolCalls parsed = heed::parse_tool_calls(
        text, format,
        R"([{"function": {"name": "f", "parameters": {"properties": {"x": {"type": "string"}}}}},
                          {"function": {"name": "g"}}])");
    if (parsed.calls.empty() && parsed.content != text) ::abort();
    heed::ToolCallStream stream(format, "[]");
    std::string given = stream.push(text.substr(0, size / 2));
    given += stream.push(text.substr(size / 2));
    if (given + stream.finish().content != text) ::abort();
  }
  heed::ReasoningStream reasoning(false, true);
  std::string all;
  const auto add = [&](const heed::ReasoningStream::Piece& piece) { all += piece.reasoning + piece.content; };
  add(reasoning.push(text.substr(0, size / 2)));
  add(reasoning.push(text.substr(size / 2)));
  add(reasoning.finish());
  if (all != text) ::abort();
  return 0;
}
