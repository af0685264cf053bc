// Iterates over code points.
#include "tasks/characters.h"

#include <algorithm>

#include "core/utf8.h"
#include "heed/text/unicode.h"

namespace heed::tasks {

Characters::Characters(std::string_view text) : text_(text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_utf8_start(text[i])) starts_.push_back(i);
  }
  starts_.push_back(text.size());
}

std::string Characters::text(std::int64_t first, std::int64_t end) const {
  first = std::clamp<std::int64_t>(first, 0, count());
  end = std::clamp<std::int64_t>(end, first, count());
  const std::size_t from = starts_[static_cast<std::size_t>(first)];
  return std::string(text_.substr(from, starts_[static_cast<std::size_t>(end)] - from));
}

bool Characters::has_space(std::int64_t first, std::int64_t end) const {
  return text(first, end).find(' ') != std::string::npos;
}

bool Characters::in_word(std::int64_t index) const { return is_word_character(text(index, index + 1)); }

}  // namespace heed::tasks
