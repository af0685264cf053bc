// Regular expressions as sets of texts: the part of ECMA-262's syntax that describes regular languages.
#pragma once

#include <string>
#include <string_view>

#include "grammar/char_automaton.h"

namespace heed::grammar {

/// Returns the texts that contain a match of `pattern`, as JSON Schema's `pattern` does, or if `whole` those
/// that match as a whole. Throws GrammarError if `pattern` is not valid UTF-8, too large, or has something
/// else than characters, `.`, classes, `\d \w \s` and their negations, escapes of characters, groups (also
/// `(?:`), alternatives, the quantifiers `* + ? {n} {n,} {n,m}`, and `^` and `$` at the ends of an outermost
/// alternative.
CharAutomaton regex_texts(std::string_view pattern, bool whole);

/// Returns the texts of a JSON Schema format. Throws GrammarError for one that is not known.
const CharAutomaton& format_texts(std::string_view format);

}  // namespace heed::grammar
