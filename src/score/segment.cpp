// Decoding, splitting and n-grams of lines for the scores.
#include "score/segment.h"

#include <fmt/format.h>
#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <iterator>

#include "heed/error.h"
#include "heed/version.h"

namespace heed::score {

std::u32string decode(const std::string& utf8, bool lowercase) {
  icu::UnicodeString text = icu::UnicodeString::fromUTF8(utf8);
  if (lowercase) text.toLower(icu::Locale::getRoot());
  std::u32string points(static_cast<std::size_t>(text.countChar32()), U'\0');
  std::size_t n = 0;
  for (std::int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
    points[n++] = static_cast<char32_t>(text.char32At(i));
  }
  return points;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::vector<std::u32string_view> split(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  std::size_t i = 0;
  while (i < text.size()) {
    while (i < text.size() && is_space(text[i])) ++i;
    const std::size_t begin = i;
    while (i < text.size() && !is_space(text[i])) ++i;
    if (i > begin) words.push_back(text.substr(begin, i - begin));
  }
  return words;
}

std::u32string_view strip_end(std::u32string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

Words::Words(const std::vector<std::u32string_view>& words) {
  for (const std::u32string_view word : words) {
    if (!text_.empty()) text_ += U' ';
    begins_.push_back(text_.size());
    text_ += word;
    ends_.push_back(text_.size());
  }
}

NGrams Words::ngrams(int order) const {
  NGrams grams;
  const std::u32string_view text = text_;
  const std::size_t n = static_cast<std::size_t>(order);
  for (std::size_t i = 0; i + n <= begins_.size(); ++i) {
    grams.push_back(text.substr(begins_[i], ends_[i + n - 1] - begins_[i]));
  }
  std::sort(grams.begin(), grams.end());
  return grams;
}

NGrams char_ngrams(std::u32string_view text, int order) {
  NGrams grams;
  const std::size_t n = static_cast<std::size_t>(order);
  for (std::size_t i = 0; i + n <= text.size(); ++i) grams.push_back(text.substr(i, n));
  std::sort(grams.begin(), grams.end());
  return grams;
}

NGrams merge_ngrams(const NGrams& a, const NGrams& b) {
  NGrams merged;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(merged));
  return merged;
}

std::int64_t count_common(const NGrams& a, const NGrams& b) {
  std::int64_t common = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    const int order = i->compare(*j);
    if (order == 0) ++common;
    if (order <= 0) ++i;
    if (order >= 0) ++j;
  }
  return common;
}

void check_streams(const char* where, const std::vector<std::string>& hypotheses,
                   const std::vector<std::vector<std::string>>& references) {
  if (hypotheses.empty()) {
    throw Error(fmt::format("{}: no lines to score", where));
  }
  if (references.empty()) {
    throw Error(fmt::format("{}: no references", where));
  }
  for (const auto& stream : references) {
    if (stream.size() == hypotheses.size()) continue;
    throw Error(
        fmt::format("{}: expected as many references as hypotheses ({}), got {} (the files must match line "
                    "by line)",
                    where, hypotheses.size(), stream.size()));
  }
}

std::vector<std::string> references_of_line(const std::vector<std::vector<std::string>>& streams,
                                            std::size_t line) {
  std::vector<std::string> references;
  for (const auto& stream : streams) references.push_back(stream[line]);
  return references;
}

std::string signature_version() { return "heed-" HEED_VERSION; }

}  // namespace heed::score
