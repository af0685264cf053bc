// What the tests of grammars share.
#pragma once

#include <string_view>

#include "heed/grammar/grammar.h"

namespace heed {

/// Whether `text` is of the grammar; and the same byte by byte, with each copy going on independently.
inline bool matches(const Grammar& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar);
  return matcher.accept(text) && matcher.may_end();
}

inline bool begins(const Grammar& grammar, std::string_view text) {
  return GrammarMatcher(grammar).accept(text);
}

}  // namespace heed
