// Tensors and labels from token ids, and tokens for readers.
#include "inspect/token_input.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include "core/utf8.h"
#include "heed/text/unicode.h"
#include "plot/labels.h"
#include "text/pipeline/byte_level.h"

namespace heed::inspect {
namespace {

// Whether tokens are spelled in GPT-2's alphabet of bytes.
bool is_byte_level(const Tokenizer& tokenizer) {
  const auto space = tokenizer.token_to_id("Ġ");
  if (!space || !tokenizer.token_to_id("Ċ")) return false;
  const std::vector<std::int64_t> ids{*space};
  return tokenizer.decode(ids, false) == " ";
}

// The bytes of a token in GPT-2's alphabet.
std::optional<std::string> spelled_bytes(const std::string& token) {
  std::string bytes;
  if (first_invalid_utf8(token)) return std::nullopt;
  for (std::size_t i = 0; i < token.size();) {
    const int byte = byte_of_character(next_character(token, i));
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

// The byte of SentencePiece's `<0xE2>`.
std::optional<std::string> fallback_byte(std::string_view token) {
  int byte = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return std::string(1, static_cast<char>(byte));
}

constexpr std::string_view kNoCharacter = "\xEF\xBF\xBD";  // of bytes that are no whole character yet

}  // namespace

Tensor one_row(const std::vector<std::int64_t>& ids) {
  return Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())});
}

std::vector<std::string> token_names(const Tokenizer* tokenizer, const std::vector<std::int64_t>& ids) {
  std::vector<std::string> tokens;
  for (const std::int64_t id : ids) {
    const bool named = tokenizer != nullptr && id >= 0 && id < tokenizer->vocab_size();
    tokens.push_back(named                  ? tokenizer->token(id)
                     : tokenizer != nullptr ? "<" + std::to_string(id) + ">"
                                            : std::to_string(id));
  }
  return tokens;
}

std::vector<QueryGroup> words_of(const std::vector<std::int64_t>& ids, const Tokenizer& tokenizer) {
  std::vector<QueryGroup> words;
  std::string before;
  std::int64_t begin = 0;  // of the tokens whose text is not known yet
  for (std::int64_t end = 1; end <= std::ssize(ids); ++end) {
    const std::string text = tokenizer.decode(std::span(ids).first(static_cast<std::size_t>(end)));
    if (text == before) {
      if (begin == end - 1) begin = end;
      continue;
    }
    if (text.ends_with(kNoCharacter) && end < std::ssize(ids)) continue;
    const std::string added = text.substr(std::min(before.size(), text.size()));
    const bool starts = words.empty() || added.starts_with(' ') || added.starts_with('\n');
    if (starts) words.push_back({"", begin, end});
    words.back().label += starts && added.size() > 1 && added.front() == ' ' ? added.substr(1) : added;
    words.back().end = end;
    before = text;
    begin = end;
  }
  return words;
}

std::vector<std::int64_t> tower_ids(const EncoderModel& tower, const Tokenizer& tokenizer,
                                    const std::string& text) {
  std::vector<std::int64_t> ids = tokenizer.encode(text).ids;
  if (const auto length = tower.padded_length(); length && std::ssize(ids) < *length)
    ids.resize(static_cast<std::size_t>(*length), tokenizer.pad_id().value_or(tower.pad_id()));
  return ids;
}

TokensByKind encoder_decoder_tokens(const std::vector<std::string>& source,
                                    const std::vector<std::string>& target,
                                    const std::vector<std::string>& fed) {
  TokensByKind tokens{{"decoder", {fed, fed}}};
  if (source.empty()) return tokens;
  tokens["encoder"] = {source, source};
  tokens["cross"] = {target, source};
  return tokens;
}

std::vector<std::string> shown_tokens(const std::vector<std::string>& tokens, const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return tokens;
  const bool spelled = is_byte_level(*tokenizer);
  std::vector<std::string> shown;
  for (const std::string& token : tokens) {
    const std::optional<std::string> bytes = spelled ? spelled_bytes(token) : fallback_byte(token);
    std::string text = bytes ? plot::escape_bytes(*bytes) : token;
    if (bytes && text.size() > 1 && text.front() == ' ') text = "·" + text.substr(1);
    shown.push_back(std::move(text));
  }
  return shown;
}

}  // namespace heed::inspect
