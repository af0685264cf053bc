// The tokens of a template: its text, with white space removed as `-`, trim_blocks and lstrip_blocks say, and
// the words of what stands in {{ }} and {% %}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heed::chat {

struct Token {
  enum class Kind {
    text,
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    string,
    integer,
    real,
    symbol,
    end,
  };
  Kind kind;
  std::string text;  // of strings, what they mean; of numbers, without underscores
  int line;
};

/// Throws Error `NAME: line N: ...`.
std::vector<Token> tokenize(std::string_view text, const std::string& name);

[[noreturn]] void fail(const std::string& name, int line, const std::string& message);

}  // namespace heed::chat
