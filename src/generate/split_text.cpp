// Splits a long text at ends of sentences, else at spaces, else between tokens.
#include "generate/translation_sources.h"

#include <algorithm>
#include <array>

#include "core/utf8.h"

namespace heed::generate {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// Returns true if a sentence ends where `text` ends: closing quotes and brackets may follow its punctuation
/// mark.
bool ends_sentence(std::string_view text) {
  constexpr std::array<std::string_view, 6> kClosing{"\"", "'", ")", "]", "\u00bb", "\u201d"};
  constexpr std::array<std::string_view, 7> kMarks{".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f"};
  const auto ends_with = [&text](std::string_view suffix) { return text.ends_with(suffix); };
  for (;;) {
    const auto closing = std::find_if(kClosing.begin(), kClosing.end(), ends_with);
    if (closing == kClosing.end()) break;
    text.remove_suffix(closing->size());
  }
  return std::any_of(kMarks.begin(), kMarks.end(), ends_with);
}

/// Returns the byte offset of character `count` of a text.
std::size_t byte_of_character(std::string_view text, std::int64_t count) {
  std::size_t byte = 0;
  for (; count > 0 && byte < text.size(); --count) {
    ++byte;
    while (byte < text.size() && !is_utf8_start(text[byte])) ++byte;
  }
  return byte;
}

/// Returns the last start of a character at or before `byte`.
std::size_t character_start(std::string_view text, std::size_t byte) {
  while (byte > 0 && byte < text.size() && !is_utf8_start(text[byte])) --byte;
  return byte;
}

/// Returns where to split within the first `limit` bytes (fewer than all): after a sentence if possible,
/// otherwise at a space, otherwise at the limit.
std::size_t cut_before(std::string_view text, std::size_t limit) {
  std::size_t space = 0;
  for (std::size_t i = limit; i > 0; --i) {
    if (!is_space(text[i])) continue;
    if (ends_sentence(text.substr(0, i))) return i;
    if (space == 0) space = i;
  }
  return space > 0 ? space : limit;
}

/// Returns the byte offset of the start of token `count`, or the text's size if it has at most `count`
/// tokens. Tokenizes no more of the text than necessary.
std::size_t start_of_token(std::string_view text, const Tokenizer& tokenizer, std::size_t count) {
  for (std::size_t window = count * 16;; window *= 2) {
    const std::string_view begin =
        text.substr(0, window >= text.size() ? window : character_start(text, window));
    const Encoding encoding = tokenizer.encode(begin, false);
    if (encoding.ids.size() > count) return byte_of_character(begin, encoding.offsets[count].first);
    if (begin.size() == text.size()) return text.size();
  }
}

/// Returns the number of bytes of the next part; at least one character.
std::size_t next_part(std::string_view text, const Tokenizer& tokenizer, std::size_t max_tokens) {
  const std::size_t least = byte_of_character(text, 1);
  std::size_t limit = start_of_token(text, tokenizer, max_tokens);
  if (limit == text.size()) return limit;
  // Splitting may change how the text before is tokenized, so every part is counted again.
  while (limit > least) {
    const std::size_t cut = cut_before(text, limit);
    if (tokenizer.encode(trim(text.substr(0, cut)), false).ids.size() <= max_tokens) return cut;
    limit = character_start(text, cut - 1);
  }
  return least;
}

}  // namespace

std::vector<std::string> split_text(std::string_view text, const Tokenizer& tokenizer,
                                    std::int64_t max_tokens) {
  std::vector<std::string> parts;
  for (text = trim(text); !text.empty();) {
    const std::size_t size = next_part(text, tokenizer, static_cast<std::size_t>(max_tokens));
    parts.emplace_back(trim(text.substr(0, size)));
    text = trim(text.substr(size));
  }
  return parts;
}

}  // namespace heed::generate
