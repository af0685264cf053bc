// Lines as code points, words, and n-grams as sorted views. A multiset of n-grams is a sorted vector: clipped
// matches are an intersection, and the union over references takes the larger count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::score {

using NGrams = std::vector<std::u32string_view>;

/// Decodes UTF-8 text, lower-cased on request (full Unicode mapping, language-independent). Malformed bytes
/// become U+FFFD.
std::u32string decode(const std::string& utf8, bool lowercase);

/// Returns true for the white space of Python's str.split: Unicode's white space and the separators U+001C to
/// U+001F.
bool is_space(char32_t c);

/// Returns the words between white space.
std::vector<std::u32string_view> split(std::u32string_view text);

/// Returns `text` without white space at its end.
std::u32string_view strip_end(std::u32string_view text);

/// Words in one string with single spaces between them, so that an n-gram of words is a view into it.
class Words {
 public:
  explicit Words(const std::vector<std::u32string_view>& words);
  std::int64_t size() const { return static_cast<std::int64_t>(begins_.size()); }
  /// Returns all n-grams of `order` words, sorted. They are views into this object, which must not be moved.
  NGrams ngrams(int order) const;

 private:
  std::u32string text_;
  std::vector<std::size_t> begins_, ends_;
};

/// Returns all n-grams of `order` code points, sorted.
NGrams char_ngrams(std::u32string_view text, int order);

/// Returns the union of two multisets: each n-gram with the larger of its two counts.
NGrams merge_ngrams(const NGrams& a, const NGrams& b);

/// Returns the size of the intersection of two multisets: each n-gram counts with the smaller of its two
/// counts.
std::int64_t count_common(const NGrams& a, const NGrams& b);

/// Throws Error unless there are hypotheses and reference streams, all with the same number of lines. `where`
/// names the score.
void check_streams(const char* where, const std::vector<std::string>& hypotheses,
                   const std::vector<std::vector<std::string>>& references);

/// Returns the references of one line from all streams.
std::vector<std::string> references_of_line(const std::vector<std::vector<std::string>>& streams,
                                            std::size_t line);

/// Returns `heed-` and the version, the last field of a signature.
std::string signature_version();

// The stems of English words.

/// Porter, "An algorithm for suffix stripping", 1980, with the changes of NLTK's PorterStemmer, its default
/// (rules of four-letter words in -ies and -ied, of y after a vowel, of -alli, -bli, -fulli and -logi, and a
/// list of irregular words). `word` is of a-z and 0-9.
std::string porter_stem(std::string word);

}  // namespace heed::score
