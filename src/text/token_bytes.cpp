// The bytes of a token come from what it adds to a text after a letter, or, for a part of a character, from
// its name.
#include "heed/text/tokenizer.h"

#include <optional>

#include "core/utf8.h"
#include "heed/error.h"
#include "text/pipeline/byte_level.h"

namespace heed {
namespace {

using Ids = std::vector<std::int64_t>;

std::optional<std::string> text_of_ids(const Tokenizer& tokenizer, const Ids& ids) {
  try {
    return tokenizer.decode(ids, false);
  } catch (const Error&) {  // an id without a token
    return std::nullopt;
  }
}

/// Returns an id whose text does not depend on what follows, or nullopt if there is none.
std::optional<std::int64_t> letter_token(const Tokenizer& tokenizer) {
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_special(id)) continue;
    const auto text = text_of_ids(tokenizer, {id});
    if (text && text->size() == 1 && (((*text)[0] | 0x20) >= 'a' && ((*text)[0] | 0x20) <= 'z')) return id;
  }
  return std::nullopt;
}

/// Whether the tokens join to `text` after the letter.
bool joins(const Tokenizer& tokenizer, std::int64_t letter, std::initializer_list<const char*> tokens,
           const char* text) {
  Ids ids = {letter};
  for (const char* token : tokens) {
    const auto id = tokenizer.token_to_id(token);
    if (!id) return false;
    ids.push_back(*id);
  }
  const auto before = text_of_ids(tokenizer, {letter}), all = text_of_ids(tokenizer, ids);
  return before && all && *all == *before + text;
}

std::string bytes_of_characters(const std::string& token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const int byte = byte_of_character(next_character(token, at));
    if (byte < 0) return token;  // as the decoder does
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::optional<char> fallback_byte(const std::string& token) {
  if (token.size() != 6 || token.compare(0, 3, "<0x") != 0 || token[5] != '>') return std::nullopt;
  const std::size_t end = token.find_first_not_of("0123456789ABCDEFabcdef", 3);
  if (end != 5) return std::nullopt;
  return static_cast<char>(std::stoi(token.substr(3, 2), nullptr, 16));
}

}  // namespace

std::vector<std::string> token_bytes(const Tokenizer& tokenizer) {
  std::vector<std::string> bytes(static_cast<std::size_t>(tokenizer.vocab_size()));
  const auto letter = letter_token(tokenizer);
  if (!letter) return bytes;
  const bool byte_level = joins(tokenizer, *letter, {"\u0120"}, " ");
  const bool byte_fallback = joins(tokenizer, *letter, {"<0xC3>", "<0xA9>"}, "\u00E9");
  const std::string before = *text_of_ids(tokenizer, {*letter});
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    if (tokenizer.is_special(id)) continue;
    const auto text = text_of_ids(tokenizer, {*letter, id});
    if (!text) continue;
    std::string token;
    try {
      token = tokenizer.token(id);
    } catch (const Error&) {  // a gap
      continue;
    }
    if (byte_level) {
      bytes[i] = bytes_of_characters(token);
    } else if (const auto byte = fallback_byte(token); byte && byte_fallback) {
      bytes[i] = *byte;
    } else if (text->compare(0, before.size(), before) == 0) {
      const bool repaired = text->find(kReplacementCharacter) != std::string::npos &&
                            token.find(kReplacementCharacter) == std::string::npos;
      if (!repaired) bytes[i] = text->substr(before.size());
    }
  }
  return bytes;
}

}  // namespace heed
