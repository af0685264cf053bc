// Pattern: what a tokenizer file searches text for, a string or a regular expression in Oniguruma's notation,
// which ICU executes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "heed/threads.h"

namespace heed {

class JsonField;

/// A match: bytes begin .. end - 1 of the text searched.
using MatchVisitor = FunctionRef<void(std::size_t begin, std::size_t end)>;

/// Searches text after text; not for use by several threads.
class PatternSearch {
 public:
  virtual ~PatternSearch() = default;
  /// Visits the matches in `text` (valid UTF-8) from left to right; none overlap. Throws Error where the
  /// search takes too long.
  virtual void find(std::string_view text, MatchVisitor visit) = 0;
};

class Pattern {
 public:
  virtual ~Pattern() = default;
  virtual std::unique_ptr<PatternSearch> search() const = 0;
  /// Whether it is known that a match ends at every word end (text/word_ends.h), and another begins there.
  virtual bool cuts_words() const { return false; }

  /// A `{"String": …}` or `{"Regex": …}` object. Throws Error naming the field where it is none, or is no
  /// regular expression. Well-known expressions get a scanner of their own.
  static std::unique_ptr<const Pattern> parse(const JsonField& field);
  /// The same from the expression; `scanner` false: executed by ICU whatever it is.
  static std::unique_ptr<const Pattern> regex(std::string_view expression, const JsonField& field,
                                              bool scanner = true);
};

/// What the byte-level pre-tokenizer of GPT-2 splits by.
inline constexpr std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Finds where the match at byte `at` of a text ends; `at` itself where there is none.
using Scanner = std::size_t (*)(std::string_view text, std::size_t at);
/// The scanner made for an expression; null where there is none.
Scanner known_scanner(std::string_view expression);

}  // namespace heed
