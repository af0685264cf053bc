// What kind a character is, for those versions of Unicode that the tokenizers library's parts are of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed {

/// The general category as a bit, as ICU's U_MASK has it, with characters newer than ICU's tables.
std::uint32_t category_mask(char32_t c);

inline constexpr int kUnassigned = 1000;
/// The version of Unicode that brought a character; kUnassigned where ICU knows none.
int unicode_age(char32_t c);

/// The small letter of a capital that is newer than ICU's tables; others as they are.
char32_t newer_lower_case(char32_t c);

/// The characters of a category (`L`, `Nd`) that ICU does not know, as ranges inside a set.
std::u16string newer_members(std::string_view category);

}  // namespace heed
