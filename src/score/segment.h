// Lines as the scores see them: code points, words, and n-grams as sorted views. A multiset of n-grams is a
// sorted vector, so that clipped matches are an intersection and the union over references takes the larger
// count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::score {

using NGrams = std::vector<std::u32string_view>;

/// Code points of UTF-8 text, lower-cased (full Unicode mapping, no language's own rules) if asked.
/// Malformed bytes become U+FFFD.
std::u32string decode(const std::string& utf8, bool lowercase);

/// White space as Python's str.split has it: Unicode's white space and the separators U+001C to U+001F.
bool is_space(char32_t c);

/// The words between white space.
std::vector<std::u32string_view> split(std::u32string_view text);

/// `text` without white space at its end.
std::u32string_view strip_end(std::u32string_view text);

/// Words in one string with single spaces between them, so that an n-gram of words is a view into it.
class Words {
 public:
  explicit Words(const std::vector<std::u32string_view>& words);
  std::int64_t size() const { return static_cast<std::int64_t>(begins_.size()); }
  /// All n-grams of `order` words, sorted; they live as long as this object stays where it is.
  NGrams ngrams(int order) const;

 private:
  std::u32string text_;
  std::vector<std::size_t> begins_, ends_;
};

/// All n-grams of `order` code points, sorted.
NGrams char_ngrams(std::u32string_view text, int order);

/// The multiset that has each n-gram as often as the side that has it more often.
NGrams merge_ngrams(const NGrams& a, const NGrams& b);

/// How many n-grams `a` and `b` share, each counted as often as the side that has it less often.
std::int64_t count_common(const NGrams& a, const NGrams& b);

/// Throws Error unless there are hypotheses, reference streams, and as many lines in each. `where` names the
/// score.
void check_streams(const char* where, const std::vector<std::string>& hypotheses,
                   const std::vector<std::vector<std::string>>& references);

/// The references of each line, from streams.
std::vector<std::string> references_of_line(const std::vector<std::vector<std::string>>& streams,
                                            std::size_t line);

/// `heed-` and the version, the last field of a signature.
std::string signature_version();

}  // namespace heed::score
