#include "text/sentencepiece_unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/utf8.h"
#include "heed/text/unicode.h"
#include "text/unigram_path.h"
#include "text/word_ends.h"

namespace heed {
namespace {

using Kind = SentencePieceFile::Kind;

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";
constexpr float kUnknownPiecePenalty = 10.0f;
/// A user-defined piece of n bytes scores 0.1 n - 0.1, more than any other piece.
constexpr float kUserDefined = 0.1f;

/// Returns the length in bytes of the first character of a text, or 0 if it does not begin with a valid one.
std::size_t first_character(std::string_view text) {
  const std::size_t length = utf8_length(text[0]);
  return length <= text.size() && !first_invalid_utf8(text.substr(0, length)) ? length : 0;
}

/// Decodes the index that the children of a unit's node are relative to: each child is at this index XOR its
/// byte.
std::uint32_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

}  // namespace

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceFile& file)
    : dummy_prefix_(file.add_dummy_prefix),
      extra_whitespaces_(!file.remove_extra_whitespaces),
      suffix_(file.whitespace_as_suffix),
      space_(file.escape_whitespaces ? kEscapedSpace : " ") {
  for (const auto& piece : file.pieces) {
    if (piece.kind != Kind::user_defined) continue;
    symbols_.insert(piece.text, 0);
    if (spans_word_end(piece.text)) keeps_word_ends_ = false;
  }
  if (file.charsmap.empty()) return;
  std::uint32_t size = 0;
  std::memcpy(&size, file.charsmap.data(), sizeof size);
  units_.resize(size / sizeof(std::uint32_t));
  std::memcpy(units_.data(), file.charsmap.data() + sizeof size, size);
  replacements_ = file.charsmap.substr(sizeof size + size);
  // A unit labelled with a space continues a string by a space; at the root, it begins a string with one.
  for (std::size_t at = 0; at < units_.size(); ++at) {
    if ((units_[at] & (1u << 31 | 0xFF)) == ' ' && (at ^ ' ') != offset(units_[0])) keeps_word_ends_ = false;
  }
}

SentencePieceNormalizer::Step SentencePieceNormalizer::step(std::string_view text) const {
  std::size_t symbol = 0;
  for (std::uint32_t node = symbols_.root(), end = 0; end < text.size();) {
    node = symbols_.next(node, text[end++]);
    if (node == Trie::kNone) break;
    if (symbols_.value(node) != Trie::kNone) symbol = end;
  }
  if (symbol > 0) return {text.substr(0, symbol), symbol};
  Step longest{{}, 0};
  std::uint32_t place = units_.empty() ? 0 : offset(units_[0]);
  for (std::size_t end = 0; !units_.empty() && end < text.size();) {
    const auto byte = static_cast<unsigned char>(text[end++]);
    const std::uint32_t at = place ^ byte, unit = units_[at];
    if ((unit & (1u << 31 | 0xFF)) != byte) break;
    place = at ^ offset(unit);
    if ((unit >> 8 & 1) != 0) longest = {replacements_.c_str() + (units_[place] & 0x7FFFFFFF), end};
  }
  if (longest.bytes > 0) return longest;
  const std::size_t character = first_character(text);
  return character > 0 ? Step{text.substr(0, character), character} : Step{kReplacementCharacter, 1};
}

std::string SentencePieceNormalizer::operator()(std::string_view text,
                                                std::vector<std::uint32_t>& origins) const {
  std::string result;
  origins.clear();
  std::size_t at = 0;
  const auto put = [&](std::string_view bytes) {
    result += bytes;
    origins.insert(origins.end(), bytes.size(), static_cast<std::uint32_t>(at));
  };
  while (!extra_whitespaces_ && at < text.size()) {
    const Step next = step(text.substr(at));
    if (next.becomes != " ") break;
    at += next.bytes;
  }
  if (at == text.size()) return result;
  if (dummy_prefix_ && !suffix_) put(space_);
  for (bool behind_space = !extra_whitespaces_; at < text.size();) {
    const Step next = step(text.substr(at));
    std::string_view becomes = next.becomes;
    if (behind_space) becomes.remove_prefix(std::min(becomes.find_first_not_of(' '), becomes.size()));
    for (const char& byte : becomes) put(byte == ' ' ? std::string_view(space_) : std::string_view(&byte, 1));
    if (!becomes.empty()) behind_space = !extra_whitespaces_ && becomes.back() == ' ';
    at += next.bytes;
  }
  while (!extra_whitespaces_ && result.ends_with(space_)) {
    result.resize(result.size() - space_.size());
    at = origins[result.size()];
    origins.resize(result.size());
  }
  if (dummy_prefix_ && suffix_) put(space_);
  origins.push_back(static_cast<std::uint32_t>(at));
  return result;
}

SentencePieceUnigram::SentencePieceUnigram(const SentencePieceFile& file) : normalize_(file) {
  float lowest = std::numeric_limits<float>::max();
  bool space = false, across = file.whitespace_as_suffix;
  if (file.byte_fallback) bytes_.assign(256, -1);
  for (std::size_t id = 0; id < file.pieces.size(); ++id) {
    const auto& piece = file.pieces[id];
    const auto number = static_cast<std::int32_t>(id);
    scores_.push_back(piece.score);
    user_defined_.push_back(piece.kind == Kind::user_defined);
    if (piece.kind == Kind::normal) lowest = std::min(lowest, piece.score);
    if (piece.kind == Kind::unknown) unknown_id_ = number;
    if (piece.kind == Kind::normal || piece.kind == Kind::user_defined)
      trie_.insert(piece.text, static_cast<std::uint32_t>(id));
    if (piece.kind == Kind::normal || piece.kind == Kind::user_defined) {
      across = across || spans_word_end(piece.text);
      space = space || piece.text == kEscapedSpace;
    }
    if (piece.kind != Kind::byte || bytes_.empty()) continue;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (piece.text == fmt::format("<0x{:02X}>", byte)) bytes_[byte] = number;
    }
  }
  unknown_score_ = lowest - kUnknownPiecePenalty;
  // Without a piece for the space, unknown characters on both sides of it would be merged with it into one
  // piece.
  cuts_words_ = space && !across && file.escape_whitespaces && normalize_.preserves_word_ends();
}

float SentencePieceUnigram::score(std::uint32_t id, std::size_t bytes) const {
  return user_defined_[id] ? static_cast<float>(bytes) * kUserDefined - kUserDefined : scores_[id];
}

std::size_t SentencePieceUnigram::safe_end(std::string_view text, std::size_t from) const {
  constexpr int kTries = 64;
  if (!cuts_words_) return text.size();
  std::vector<std::uint32_t> origins;
  std::size_t end = find_word_end(text, from);
  for (int tries = 0; tries < kTries && end < text.size(); ++tries, end = find_word_end(text, end + 1)) {
    if (space_between(normalize_(letters_around(text, end), origins)) == kMetaspace) return end;
  }
  return text.size();
}

void SentencePieceUnigram::encode(std::string_view text, PieceVisitor visit) const {
  std::vector<std::uint32_t> origins;
  const std::string normalized = normalize_(text, origins);
  UnigramPath<float> path;
  path.find(
      normalized, trie_, [this](std::uint32_t id, std::size_t bytes) { return score(id, bytes); },
      unknown_id_, unknown_score_);
  struct Piece {
    std::size_t begin, end;
    std::int32_t id;
  };
  std::vector<Piece> pieces;  // from the last to the first
  for (std::size_t end = normalized.size(); end > 0; end = path[end].begin) {
    const Piece piece{path[end].begin, end, path[end].id};
    // Neighbouring unknown characters become one piece, or one piece per byte.
    if (piece.id == unknown_id_ && bytes_.empty() && !pieces.empty() && pieces.back().id == unknown_id_) {
      pieces.back().begin = piece.begin;
    } else {
      pieces.push_back(piece);
    }
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    const std::size_t begin = origins[piece->begin], end = origins[piece->end];
    const std::string_view shown =
        std::string_view(normalized).substr(piece->begin, piece->end - piece->begin);
    if (piece->id != unknown_id_ || bytes_.empty()) {
      visit(shown, piece->id, begin, end);
      continue;
    }
    for (std::size_t i = 0; i < shown.size(); ++i) {  // the last byte covers the text
      const auto byte = static_cast<unsigned char>(shown[i]);
      visit(fmt::format("<0x{:02X}>", byte), bytes_[byte] < 0 ? unknown_id_ : bytes_[byte], begin,
            i + 1 < shown.size() ? begin : end);
    }
  }
}

}  // namespace heed
