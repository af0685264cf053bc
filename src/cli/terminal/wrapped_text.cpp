#include "cli/terminal/wrapped_text.h"

#include "heed/text/unicode.h"

namespace heed::cli {
namespace {

// The bytes of the character that begins with this one.
std::size_t character_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

void WrappedText::end_word(std::string& out) {
  const int spaces = static_cast<int>(spaces_.size()), word = display_width(word_);
  if (word_.empty()) return;
  if (column_ > 0 && column_ + spaces + word > width_) {
    out += '\n';
    column_ = 0;
  } else {
    out += spaces_;
    column_ += spaces;
  }
  out += word_;
  column_ += word;
  spaces_.clear();
  word_.clear();
}

std::string WrappedText::add(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view character = text.substr(0, character_bytes(text.front()));
    text.remove_prefix(character.size());
    if (character == "\n") {
      end_word(out);
      spaces_.clear();
      out += '\n';
      column_ = 0;
    } else if (character == " " || character == "\t") {
      end_word(out);
      spaces_ += character == " " ? " " : "    ";
    } else {
      if (display_width(character) == 2) end_word(out);  // scripts without spaces
      word_ += character;
      if (display_width(character) == 2) end_word(out);
    }
  }
  return out;
}

std::string WrappedText::finish() {
  std::string out;
  end_word(out);
  column_ = 0;
  spaces_.clear();
  return out;
}

}  // namespace heed::cli
