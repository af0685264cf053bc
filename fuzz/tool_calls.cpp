// Calls of functions in an answer, in every format.
#include "heed/chat/tool_calls.h"

#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using Format = heed::ToolCallFormat;
  const std::string_view text = heed::fuzz::text_of(data, size);
  heed::tool_call_format(text);
  for (const Format format :
       {Format::none, Format::hermes, Format::llama, Format::mistral, Format::deepseek, Format::pythonic}) {
    const heed::ParsedToolCalls parsed = heed::parse_tool_calls(text, format);
    if (parsed.calls.empty() && parsed.content != text) ::abort();
  }
  return 0;
}
