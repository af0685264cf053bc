// Character properties for the Unicode versions that the parts of the tokenizers library use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed {

/// Returns the general category as a bit, like ICU's U_MASK. Includes characters newer than ICU's tables.
std::uint32_t category_mask(char32_t c);

inline constexpr int kUnassigned = 1000;
/// Returns the Unicode version that introduced a character, or kUnassigned if ICU does not know it.
int unicode_age(char32_t c);

/// Returns the lower-case form of a capital that is newer than ICU's tables, otherwise `c`.
char32_t newer_lower_case(char32_t c);

/// Returns the characters of a category (`L`, `Nd`) that ICU does not know, as ranges of a set.
std::u16string newer_members(std::string_view category);

}  // namespace heed
