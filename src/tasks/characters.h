// Characters: access to a text by character (code point).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::tasks {

class Characters {
 public:
  /// `text`, which must be valid UTF-8 and outlive this.
  explicit Characters(std::string_view text);
  std::int64_t count() const { return static_cast<std::int64_t>(starts_.size()) - 1; }
  /// Returns characters first .. end - 1, limited to those that exist.
  std::string text(std::int64_t first, std::int64_t end) const;
  /// Returns true if one of these characters is a space (U+0020).
  bool has_space(std::int64_t first, std::int64_t end) const;
  /// See is_word_character.
  bool in_word(std::int64_t index) const;

 private:
  std::string_view text_;
  std::vector<std::size_t> starts_;  // of each character; the last is the end of the text
};

}  // namespace heed::tasks
