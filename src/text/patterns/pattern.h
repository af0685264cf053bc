// Pattern: a string or a regular expression (in Oniguruma's syntax, executed by ICU) that a tokenizer file
// searches for in text.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "heed/threads.h"

namespace heed {

class JsonField;

/// A match: bytes begin .. end - 1 of the searched text.
using MatchVisitor = FunctionRef<void(std::size_t begin, std::size_t end)>;

/// Searches one text after another. Not thread-safe.
class PatternSearch {
 public:
  virtual ~PatternSearch() = default;
  /// Visits the matches in `text` (valid UTF-8) from left to right, without overlaps. Throws Error if the
  /// search takes too long.
  virtual void find(std::string_view text, MatchVisitor visit) = 0;
};

class Pattern {
 public:
  virtual ~Pattern() = default;
  virtual std::unique_ptr<PatternSearch> search() const = 0;
  /// Returns true if, for every text, a match ends at each word end (text/word_ends.h) and another begins
  /// there.
  virtual bool splits_at_word_ends() const { return false; }

  /// Parses a `{"String": …}` or `{"Regex": …}` object. Throws Error naming the field if it is neither, or if
  /// the expression is malformed. Well-known expressions use a hand-written scanner.
  static std::unique_ptr<const Pattern> parse(const JsonField& field);
  /// The same from the expression itself. With `scanner` false, ICU executes every expression.
  static std::unique_ptr<const Pattern> regex(std::string_view expression, const JsonField& field,
                                              bool scanner = true);
};

/// Returns a test of whether the whole of a text matches `expression`, which comes from `where`. Throws Error
/// naming it if the expression is malformed. Not thread-safe.
std::function<bool(std::string_view)> full_match(const std::string& expression, const std::string& where);

/// The expression of GPT-2's byte-level pre-tokenizer.
inline constexpr std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Returns where the match that begins at byte `at` ends, or `at` if there is none.
using Scanner = std::size_t (*)(std::string_view text, std::size_t at);
/// Returns the hand-written scanner for an expression, or null if there is none.
Scanner known_scanner(std::string_view expression);

/// Translates what differs: classes with other members, \\h and \\v, [:names:], (?m) for a dot that matches
/// line ends, {,n}. Everything else is unchanged; ICU accepts or rejects it.
std::u16string regex_for_icu(std::string_view expression);

}  // namespace heed
