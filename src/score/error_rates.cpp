// Word and character error rates by edit distance.
#include "heed/score/error_rates.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "core/strings.h"
#include "core/utf8.h"
#include "heed/error.h"

namespace heed {
namespace {

using Parts = std::vector<std::string_view>;

Parts words_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  Parts words;
  for (std::size_t begin = text.find_first_not_of(kSpace); begin != text.npos;) {
    const std::size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpace, end);
  }
  return words;
}

Parts characters_of(std::string_view text) {
  Parts characters;
  for (text = trimmed(text); !text.empty();) {
    const std::size_t bytes = first_utf8_sequence(text).bytes;
    characters.push_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return characters;
}

// Levenshtein 1966, row by row of the table over all prefixes.
std::int64_t edits(const Parts& a, const Parts& b) {
  std::vector<std::int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::int64_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::int64_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::int64_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

template <class Split>
ErrorRate error_rate(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
                     const Split& split) {
  if (hypotheses.size() != references.size())
    throw Error("error rate: expected as many references as hypotheses, " +
                std::to_string(hypotheses.size()) + ", got " + std::to_string(references.size()));
  ErrorRate rate;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const Parts reference = split(references[i]);
    rate.errors += edits(split(hypotheses[i]), reference);
    rate.references += std::ssize(reference);
  }
  return rate;
}

}  // namespace

double ErrorRate::percent() const {
  if (references == 0) return errors == 0 ? 0 : 100;
  return 100 * static_cast<double>(errors) / static_cast<double>(references);
}

ErrorRate word_error_rate(const std::vector<std::string>& hypotheses,
                          const std::vector<std::string>& references) {
  return error_rate(hypotheses, references, words_of);
}

ErrorRate character_error_rate(const std::vector<std::string>& hypotheses,
                               const std::vector<std::string>& references) {
  return error_rate(hypotheses, references, characters_of);
}

}  // namespace heed
