// Properties of characters as Python's str has them, and changes of case.
#pragma once

#include <string>
#include <string_view>

namespace heed::chat {

bool is_space(char32_t c);
bool is_alphabetic(char32_t c);
bool is_decimal(char32_t c);
/// Decimal digits, and digits such as superscripts.
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
/// Whether repr() shows the character as it is.
bool is_printable(char32_t c);

std::string upper_case(std::string_view text);
/// The first character in title case, the others in lower case.
std::string capitalized(std::string_view text);
/// As str.title(): each letter after what is not one in title case, the others in lower case.
std::string title_case(std::string_view text);
std::string swapped_case(std::string_view text);

}  // namespace heed::chat
