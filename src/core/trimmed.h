// A text without the white space at its ends.
#pragma once

#include <string_view>

namespace heed {

inline std::string_view trimmed(std::string_view text, std::string_view space = " \t\n\r\f\v") {
  const std::size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

}  // namespace heed
