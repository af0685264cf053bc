// Regular expressions in the notation of Oniguruma (Ruby's), written in that of ICU.
#pragma once

#include <string>
#include <string_view>

namespace heed {

/// What differs: classes whose members differ, \\h and \\v, [:names:], (?m) for a dot that matches line ends,
/// {,n}. Everything else is left as it is, for ICU to take or to refuse.
std::u16string regex_for_icu(std::string_view expression);

}  // namespace heed
