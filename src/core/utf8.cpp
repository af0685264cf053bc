// Validation and repair of UTF-8, character by character.
#include "core/utf8.h"

namespace heed {

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  for (std::size_t i = ascii_run(text, 0); i < text.size(); i += ascii_run(text, i)) {
    const Utf8Sequence sequence = first_utf8_sequence(text.substr(i));
    if (!sequence.valid) return i;
    i += sequence.bytes;
  }
  return std::nullopt;
}

std::string replace_invalid_utf8(std::string_view text, std::size_t* replaced) {
  std::string result;
  result.reserve(text.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Sequence sequence = first_utf8_sequence(text.substr(i));
    result += sequence.valid ? text.substr(i, sequence.bytes) : kReplacementCharacter;
    count += sequence.valid ? 0 : 1;
    i += sequence.bytes;
  }
  if (replaced != nullptr) *replaced = count;
  return result;
}

}  // namespace heed
