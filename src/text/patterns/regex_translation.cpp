// One pass over the expression, which counts the depth of nested sets.
#include "text/patterns/pattern.h"

#include <unicode/utf16.h>

#include <utility>

#include "core/strings.h"
#include "core/utf8.h"
#include "text/unicode/character_class.h"

namespace heed {
namespace {

/// Returns a named class as members of a set.
std::u16string members(std::string_view name) {
  if (name == "s" || name == "space") return u"\\p{White_Space}";
  if (name == "h" || name == "xdigit") return u"0-9a-fA-F";
  if (name == "d" || name == "digit") return u"\\p{Nd}" + newer_members("Nd");
  if (name == "alpha") return u"\\p{Alphabetic}" + newer_members("L") + newer_members("M");
  if (name == "alnum") return members("alpha") + members("d");
  if (name == "upper") return u"\\p{Uppercase}" + newer_members("Lu");
  if (name == "lower") return u"\\p{Lowercase}" + newer_members("Ll");
  if (name == "punct") return u"\\p{P}\\p{S}" + newer_members("P") + newer_members("S");
  if (name == "w" || name == "word") {
    return u"\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}" + newer_members("L") + newer_members("M") +
           newer_members("Nd");
  }
  return {};
}

/// Outside of sets, \w also matches six more characters of Latin-1: superscript digits and fractions.
std::u16string word_members() { return members("w") + u"\\u00B2\\u00B3\\u00B9\\u00BC-\\u00BE"; }

/// \b and \B; ICU's own versions ignore marks and formats.
std::u16string boundary(bool wanted) {
  const std::u16string word = std::u16string(u"[") + word_members() + u"])";
  const std::u16string after = u"(?<=" + word, not_after = u"(?<!" + word, before = u"(?=" + word,
                       not_before = u"(?!" + word;
  return wanted ? u"(?:" + after + not_before + u"|" + not_after + before + u")"
                : u"(?:" + after + before + u"|" + not_after + not_before + u")";
}

class Translation {
 public:
  explicit Translation(std::string_view expression) : in_(expression) {}

  std::u16string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        escape();
      } else if (c == '[' && depth_ > 0 && in_.substr(at_, 2) == "[:") {
        named_class();
      } else if (c == '[') {
        open_set();
      } else if (c == ']') {
        depth_ -= depth_ > 0 ? 1 : 0;
        take(1);
      } else if (depth_ == 0 && in_.substr(at_, 2) == "(?") {
        flags();
      } else if (depth_ == 0 && in_.substr(at_, 2) == "{,") {
        out_ += u"{0";
        ++at_;
      } else {
        take(1);
      }
    }
    return std::move(out_);
  }

 private:
  /// Copies characters.
  void take(std::size_t characters) {
    for (; characters > 0 && at_ < in_.size(); --characters) {
      const char32_t c = next_character(in_, at_);
      if (c < 0x10000) {
        out_ += static_cast<char16_t>(c);
      } else {
        out_ += U16_LEAD(c);
        out_ += U16_TRAIL(c);
      }
    }
  }

  void open_set() {
    ++depth_;
    take(1);
    if (in_.substr(at_, 1) == "^") take(1);
    if (in_.substr(at_, 1) == "]") out_ += u'\\';  // a bracket in first position is literal
    if (in_.substr(at_, 1) == "]") take(1);
  }

  void put_set(const std::u16string& set, bool negated) {
    out_ += negated ? u"[^" : u"[";
    out_ += set + u"]";
  }

  void named_class() {
    const std::size_t end = in_.find(":]", at_);
    const bool negated = in_.substr(at_ + 2, 1) == "^";
    const std::size_t begin = at_ + (negated ? 3 : 2);
    const std::u16string set = end == in_.npos ? u"" : members(in_.substr(begin, end - begin));
    if (set.empty()) {
      ++depth_;
      return take(1);
    }
    put_set(set, negated);
    at_ = end + 2;
  }

  /// \p{Name}, \p{^Name} and \P{Name}. General categories are extended by characters newer than ICU.
  void property() {
    const std::size_t end = in_.find('}', at_);
    if (end == in_.npos || in_.substr(at_ + 2, 1) != "{") return take(2);
    const bool caret = in_.substr(at_ + 3, 1) == "^";
    const std::size_t begin = at_ + (caret ? 4 : 3);
    const std::string_view name = in_.substr(begin, end - begin);
    const bool negated = (in_[at_ + 1] == 'P') != caret;
    const std::u16string more =
        name.size() <= 2 && !name.empty() && name[0] != 'C' ? newer_members(name) : u"";
    std::u16string set = u"\\p{";
    for (const char c : name) set += static_cast<char16_t>(static_cast<unsigned char>(c));
    put_set(set + u"}" + more, negated);
    at_ = end + 1;
  }

  void escape() {
    const char c = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    if (c == 'p' || c == 'P') return property();
    const char lower = ascii_lower(c);
    const char16_t* other = nullptr;
    if (c == 'v') other = u"\\x0B";
    if (c == 'N') other = u"[^\\n]";
    if (c == 'b' && depth_ > 0) other = u"\\x08";
    if (lower == 'b' && depth_ == 0) {
      out_ += boundary(c == 'b');
    } else if (lower == 'w' && depth_ == 0) {
      put_set(word_members(), c == 'W');
    } else if (lower == 's' || lower == 'h' || lower == 'd' || lower == 'w') {
      put_set(members(std::string_view(&lower, 1)), c != lower);
    } else if (other != nullptr) {
      out_ += other;
    } else {
      return take(2);
    }
    at_ += 2;
  }

  void flags() {
    take(2);
    std::size_t end = at_;
    while (end < in_.size() && (in_[end] == '-' || (in_[end] >= 'a' && in_[end] <= 'z'))) ++end;
    const bool is_flags = end > at_ && end < in_.size() && (in_[end] == ':' || in_[end] == ')');
    for (; is_flags && at_ < end; ++at_) {
      out_ += in_[at_] == 'm' ? u's' : static_cast<char16_t>(in_[at_]);
    }
  }

  std::string_view in_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::u16string out_;
};

}  // namespace

std::u16string regex_for_icu(std::string_view expression) { return Translation(expression).run(); }

}  // namespace heed
