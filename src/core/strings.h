// Strings that every module cuts, joins and spells: the one place for these few loops.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed {

/// The text without the white space at its ends.
inline std::string_view trimmed(std::string_view text, std::string_view space = " \t\n\r\f\v") {
  const std::size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

/// The texts of a list, with a separator between each two. `name` gives the text of an element: a function or
/// a member (`&Target::name`).
template <class List, class Name = std::identity>
std::string joined(const List& list, std::string_view separator = ", ", const Name& name = {}) {
  std::string text;
  bool first = true;
  for (const auto& each : list) {
    if (!std::exchange(first, false)) text += separator;
    text += std::invoke(name, each);
  }
  return text;
}

/// The keys of a map of texts.
template <class Map>
std::string joined_keys(const Map& map, std::string_view separator = ", ") {
  return joined(map, separator, [](const auto& entry) { return std::string_view(entry.first); });
}

/// Numbers as in a shape: "2, 3".
inline std::string joined_numbers(const std::vector<std::int64_t>& numbers) {
  return joined(numbers, ", ", [](std::int64_t number) { return std::to_string(number); });
}

/// Names in a message: "a, b or c".
inline std::string alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + names[i];
  return text;
}

/// A to Z in lower case; other characters stay (heed/text/unicode.h knows all letters).
inline char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string ascii_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = ascii_lower(c);
  return lower;
}

inline bool is_ascii_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z');
}

inline constexpr std::string_view kHexDigits = "0123456789abcdef", kUpperHexDigits = "0123456789ABCDEF";

/// Appends a byte as two hexadecimal digits.
inline void append_hex(std::string& text, std::uint8_t byte, std::string_view digits = kHexDigits) {
  text += digits[byte >> 4];
  text += digits[byte & 15];
}

}  // namespace heed
