// The character map of SentencePiece models (`precompiled_charsmap`): a double array of byte strings, and
// what each is replaced by.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_field.h"
#include "text/normalized_text.h"

namespace heed {

class Charsmap {
 public:
  /// Takes the bytes of the map; throws Error naming `field` when they are none.
  Charsmap(std::string_view bytes, const JsonField& field);
  void apply(NormalizedText& text) const;

 private:
  /// What replaces a chunk: the entry of its shortest prefix that has one.
  std::optional<std::string_view> find(std::string_view chunk) const;
  bool needs_nothing(std::string_view text) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;               // each ended by a zero byte
  std::array<bool, 128> ascii_changes_{};  // whether an ASCII character by itself is replaced
};

/// The bytes that base64 text stands for; nothing where it is no base64.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace heed
