// Lines of texts as people have them: ended by LF or CRLF, with or without a byte order mark before the
// first.
#pragma once

#include <istream>
#include <string>
#include <string_view>

namespace heed {

/// UTF-8's, which some editors put before a text.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

inline void drop_byte_order_mark(std::string& text) {
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
}

/// Reads a line without its end. Returns false after the last.
inline bool next_line(std::istream& stream, std::string& line) {
  if (!std::getline(stream, line)) return false;
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

}  // namespace heed
