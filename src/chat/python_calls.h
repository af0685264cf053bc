// Calls in Python's syntax, with literals as arguments.
#pragma once

#include <string_view>
#include <vector>

#include "heed/chat/tool_calls.h"

namespace heed::chat {

using Calls = std::vector<ToolCall>;

/// Removes `[f(x=1), g()]` or `f(x=1)` from the start of `text`, and white space around it. Returns false if
/// it does not begin like this.
bool take_python_calls(std::string_view& text, Calls& calls);

}  // namespace heed::chat
