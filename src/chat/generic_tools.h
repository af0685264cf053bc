// Functions for templates that have no place for them.
#pragma once

#include "core/json.h"

namespace heed::chat {

/// Describes `tools` in the system message, or, if `has_system` is false, in the first message of the user,
/// and asks for calls as JSON objects alone (ToolCallFormat::llama). Calls and results of earlier messages
/// become their texts.
void describe_tools(Json& messages, const Json& tools, bool has_system);

}  // namespace heed::chat
