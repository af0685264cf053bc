// Characters: access to a text by character (code point).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/utf8.h"
#include "heed/text/unicode.h"

namespace heed::tasks {

class Characters {
 public:
  /// `text`, which must be valid UTF-8 and outlive this.
  explicit Characters(std::string_view text) : text_(text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (is_utf8_start(text[i])) starts_.push_back(i);
    }
    starts_.push_back(text.size());
  }
  std::int64_t count() const { return static_cast<std::int64_t>(starts_.size()) - 1; }
  /// Returns characters first .. end - 1, limited to those that exist.
  std::string text(std::int64_t first, std::int64_t end) const {
    first = std::clamp<std::int64_t>(first, 0, count());
    end = std::clamp<std::int64_t>(end, first, count());
    const std::size_t from = starts_[static_cast<std::size_t>(first)];
    return std::string(text_.substr(from, starts_[static_cast<std::size_t>(end)] - from));
  }
  /// Returns true if one of these characters is a space (U+0020).
  bool has_space(std::int64_t first, std::int64_t end) const {
    return text(first, end).find(' ') != std::string::npos;
  }
  /// See is_word_character.
  bool in_word(std::int64_t index) const { return is_word_character(text(index, index + 1)); }

 private:
  std::string_view text_;
  std::vector<std::size_t> starts_;  // of each character; the last is the end of the text
};

}  // namespace heed::tasks
