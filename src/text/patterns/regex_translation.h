// Translates regular expressions from Oniguruma's (Ruby's) syntax to ICU's.
#pragma once

#include <string>
#include <string_view>

namespace heed {

/// Translates what differs: classes with other members, \\h and \\v, [:names:], (?m) for a dot that matches
/// line ends, {,n}. Everything else is unchanged; ICU accepts or rejects it.
std::u16string regex_for_icu(std::string_view expression);

}  // namespace heed
