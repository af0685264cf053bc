// NormalizedText: text during normalization, with the alignment of each byte to the original; and Pieces, the
// parts that a pre-tokenizer splits it into. The alignment rules are those of the tokenizers library: a
// character that replaces another takes its position; an inserted one takes the position of the character
// before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed {

/// Bytes begin .. end - 1 of the original text.
struct ByteSpan {
  std::uint32_t begin;
  std::uint32_t end;
};

/// Limits how long a text may become by normalization. The limit is far above the growth of Unicode's
/// normalization forms (at most 11 times), so that only a damaged or hostile tokenizer file reaches it.
class GrowthLimit {
 public:
  /// For a text of `bytes` bytes. `where` names the tokenizer's file and must outlive this.
  GrowthLimit(const std::string& where, std::size_t bytes);
  /// Throws Error if `bytes` is above the limit.
  void check(std::size_t bytes) const {
    if (bytes > limit_) refuse();
  }

 private:
  [[noreturn]] void refuse() const;

  const std::string& where_;
  std::size_t bytes_, limit_;
};

class NormalizedText {
 public:
  NormalizedText() = default;
  /// The original itself, from its byte `origin` on, unchanged. Must be valid UTF-8. `limit`, which may be
  /// null, must outlive this and all texts made from it.
  NormalizedText(std::string_view original, std::uint32_t origin, const GrowthLimit* limit)
      : text_(original), origin_(origin), limit_(limit) {}

  const std::string& text() const { return text_; }
  /// Returns where this text begins in the original.
  std::uint32_t origin() const { return origin_; }
  /// Returns the original characters from that of byte `begin` to that of byte `end` - 1; `begin` < `end`.
  ByteSpan original(std::size_t begin, std::size_t end) const;
  /// Returns the position in the original of the character whose first byte is `begin`.
  std::uint32_t origin_of(std::size_t begin) const {
    return spans_.empty() ? origin_ + static_cast<std::uint32_t>(begin) : spans_[begin].begin;
  }
  /// Throws Error if `bytes` is more than the text may have.
  void check_growth(std::size_t bytes) const {
    if (limit_ != nullptr) limit_->check(bytes);
  }
  /// Returns a part, which keeps its positions.
  NormalizedText slice(std::size_t begin, std::size_t end) const;

 private:
  friend class Rewrite;
  std::string text_;
  std::vector<ByteSpan> spans_;  // per byte; empty while the text equals the original
  std::uint32_t origin_ = 0;
  const GrowthLimit* limit_ = nullptr;
};

/// Rewrites a text from its beginning to its end.
class Rewrite {
 public:
  explicit Rewrite(const NormalizedText& source);

  bool done() const { return at_ >= source_.text_.size(); }
  std::size_t at() const { return at_; }
  std::size_t written() const { return text_.size(); }
  /// Returns the next character without consuming it.
  char32_t peek() const;

  void keep() { keep(1); }
  /// Copies the next characters.
  void keep(std::size_t characters);
  void keep_bytes(std::size_t bytes);
  /// Writes `c` in place of the next character and drops the `dropped` characters after it.
  void replace(char32_t c, std::size_t dropped = 0);
  /// Inserts `c` before the next character.
  void insert(char32_t c);
  /// Inserts all of `text` before the next character, aligned to that character.
  void prepend(std::string_view text);
  void drop(std::size_t characters);
  void skip_to(std::size_t at) { at_ = at; }
  /// Writes each of the next bytes as its character of the byte alphabet.
  void spell_bytes(std::size_t bytes);

  NormalizedText finish();

 private:
  ByteSpan span_at(std::size_t at) const;
  void put(char32_t c, ByteSpan span);

  const NormalizedText& source_;
  std::string text_;
  std::vector<ByteSpan> spans_;
  std::size_t at_ = 0;
};

/// One character of the result and how it changes the text: 0 replaces the next character, -n replaces it and
/// drops n more, 1 is inserted.
struct CharacterChange {
  char32_t character;
  std::int32_t change;
};
/// Applies `changes` to `source`, after dropping its first `dropped` characters. Characters past the end get
/// the position of the end.
NormalizedText change_characters(const NormalizedText& source, const std::vector<CharacterChange>& changes,
                                 std::size_t dropped = 0);

/// A text split into pieces: ascending, non-empty ranges of its bytes.
struct Pieces {
  struct Piece {
    std::uint32_t begin;
    std::uint32_t end;
    std::uint32_t origin;  // where it begins in the original
  };
  NormalizedText text;
  std::vector<Piece> list;

  std::string_view view(const Piece& piece) const {
    return std::string_view(text.text()).substr(piece.begin, piece.end - piece.begin);
  }
};

}  // namespace heed
