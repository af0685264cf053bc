// UTF-8 validation and repair. Invalid bytes are treated in the same way everywhere in heed: each maximal
// invalid part is one character, U+FFFD.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace heed {

/// Returns the index of the first byte that is not part of a well-formed UTF-8 sequence (overlong forms,
/// surrogates and values above U+10FFFF are not well-formed), or nullopt if all of `text` is valid.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

/// Returns `text` with each maximal invalid part replaced by U+FFFD, as the Unicode Standard recommends
/// (section 3.9, "U+FFFD Substitution of Maximal Subparts"). `replaced`, if given, receives the number of
/// replacements.
std::string replace_invalid_utf8(std::string_view text, std::size_t* replaced = nullptr);

}  // namespace heed
