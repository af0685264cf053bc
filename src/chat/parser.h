// From the tokens of a template to its syntax tree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/syntax.h"

namespace heed::chat {

/// Throws Error `NAME: line N: expected X, got Y`.
std::vector<Statement> parse_template(std::string_view text, const std::string& name);

}  // namespace heed::chat
