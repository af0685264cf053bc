// NormalizedText: text on its way to tokens, which remembers where in the original each of its bytes comes
// from; and Pieces, the parts a pre-tokenizer cuts it into. The rules of alignment are those of the
// tokenizers library: a character that takes another's place takes its position, one that is inserted takes
// the position of what stands before it.
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

/// How long a text may become on its way: far longer than Unicode's normalization forms make any (11 times),
/// so that only a damaged or hostile tokenizer file reaches it.
class GrowthLimit {
 public:
  /// Of a text of `bytes` bytes; `where` names the tokenizer's file and must outlive this.
  GrowthLimit(const std::string& where, std::size_t bytes);
  /// Throws Error when `bytes` is above the limit.
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
  /// The original itself, from byte `origin` of it on. Must be valid UTF-8. `limit`, which may be null, must
  /// outlive this and all that is made of it.
  NormalizedText(std::string_view original, std::uint32_t origin, const GrowthLimit* limit)
      : text_(original), origin_(origin), limit_(limit) {}

  const std::string& text() const { return text_; }
  /// Where in the original the whole begins.
  std::uint32_t origin() const { return origin_; }
  /// The original characters from that of byte `begin` to that of byte `end` - 1; `begin` < `end`.
  ByteSpan original(std::size_t begin, std::size_t end) const;
  /// Where in the original the character at byte `begin`, its first, comes from.
  std::uint32_t origin_of(std::size_t begin) const {
    return spans_.empty() ? origin_ + static_cast<std::uint32_t>(begin) : spans_[begin].begin;
  }
  /// Throws Error when the text would have `bytes` bytes and that is more than it may have.
  void check_growth(std::size_t bytes) const {
    if (limit_ != nullptr) limit_->check(bytes);
  }
  /// A part with positions of its own.
  NormalizedText slice(std::size_t begin, std::size_t end) const;

 private:
  friend class Rewrite;
  std::string text_;
  std::vector<ByteSpan> spans_;  // per byte; empty while the text is the original
  std::uint32_t origin_ = 0;
  const GrowthLimit* limit_ = nullptr;
};

/// Writes a text anew, from its beginning to its end.
class Rewrite {
 public:
  explicit Rewrite(const NormalizedText& source);

  bool done() const { return at_ >= source_.text_.size(); }
  std::size_t at() const { return at_; }
  std::size_t written() const { return text_.size(); }
  /// The next character, without moving on.
  char32_t peek() const;

  void keep() { keep(1); }
  /// Takes over the next characters.
  void keep(std::size_t characters);
  void keep_bytes(std::size_t bytes);
  /// Puts `c` in the place of the next character and leaves out `dropped` characters behind that.
  void replace(char32_t c, std::size_t dropped = 0);
  /// Puts `c` between what was written and what comes next.
  void insert(char32_t c);
  /// Puts all of `text` in front of the next character, as part of it.
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

/// A character and how it changes the text: 0 takes the place of the next character, -n of that and n more,
/// 1 is inserted.
struct CharacterChange {
  char32_t character;
  std::int32_t change;
};
/// `source` with its characters changed, the first `dropped` of them left out. Characters past the end have
/// the position of the end.
NormalizedText change_characters(const NormalizedText& source, const std::vector<CharacterChange>& changes,
                                 std::size_t dropped = 0);

/// A text cut into pieces: ascending ranges of its bytes, none empty.
struct Pieces {
  struct Piece {
    std::uint32_t begin;
    std::uint32_t end;
    std::uint32_t origin;  // where in the original it begins
  };
  NormalizedText text;
  std::vector<Piece> list;

  std::string_view view(const Piece& piece) const {
    return std::string_view(text.text()).substr(piece.begin, piece.end - piece.begin);
  }
};

}  // namespace heed
