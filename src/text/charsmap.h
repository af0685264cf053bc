// The character map of SentencePiece models (`precompiled_charsmap`): a double-array trie of byte strings,
// and the replacement of each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_field.h"
#include "text/normalized_text.h"

namespace heed {

class Charsmap {
 public:
  /// Parses the bytes of the map. Throws Error naming `field` if they are malformed.
  Charsmap(std::string_view bytes, const JsonField& field);
  void apply(NormalizedText& text) const;

 private:
  /// Returns the replacement of a chunk: the entry of its shortest prefix that has one.
  std::optional<std::string_view> find(std::string_view chunk) const;
  bool needs_nothing(std::string_view text) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;               // each ends with a zero byte
  std::array<bool, 128> ascii_changes_{};  // true if the ASCII character by itself is replaced
};

}  // namespace heed
