// Parses a regular expression to a tree and builds its automaton by Thompson's construction.
#include "grammar/char_automaton.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "core/strings.h"
#include "core/utf8.h"

namespace heed::grammar {
namespace {

constexpr std::int64_t kMostRepetitions = 10'000;
constexpr int kDeepestGroup = 64;

struct RegexNode {
  enum class Kind { set, sequence, alternatives, repetition };
  Kind kind = Kind::sequence;
  std::vector<CharRange> set = {};
  std::vector<RegexNode> children = {};
  std::int64_t least = 0;
  std::int64_t most = -1;  // -1: without end
};

RegexNode set_node(std::vector<CharRange> set) { return {RegexNode::Kind::set, std::move(set), {}, 0, -1}; }

std::vector<CharRange> complement(std::vector<CharRange> set) {
  std::sort(set.begin(), set.end(), [](const CharRange& a, const CharRange& b) { return a.first < b.first; });
  std::vector<CharRange> result;
  char32_t next = 0;
  for (const CharRange& range : set) {
    if (range.first > next) result.push_back({next, range.first - 1});
    next = std::max<char32_t>(next, range.last + 1);
  }
  if (next <= kLastCharacter) result.push_back({next, kLastCharacter});
  return result;
}

const std::vector<CharRange> kDigits = {{'0', '9'}},
                             kWordCharacters = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                             kSpaces = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},
                                        {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                        {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                                        {0xFEFF, 0xFEFF}},
                             kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class RegexParser {
 public:
  explicit RegexParser(std::string_view text) : text_(text) {}

  RegexNode parse(bool whole) {
    RegexNode result{RegexNode::Kind::alternatives};
    do {
      RegexNode sequence;
      const bool from_start = take('^') || whole;
      if (!from_start) sequence.children.push_back(any_text());
      RegexNode inner = this->sequence(0);
      std::move(inner.children.begin(), inner.children.end(), std::back_inserter(sequence.children));
      const bool to_end = take('$') || whole;
      if (!to_end) sequence.children.push_back(any_text());
      result.children.push_back(std::move(sequence));
    } while (take('|'));
    if (at_ < text_.size()) unexpected();
    return result;
  }

 private:
  static RegexNode any_text() {
    return {RegexNode::Kind::repetition, {}, {set_node({{0, kLastCharacter}})}, 0, -1};
  }
  [[noreturn]] void unexpected() const {
    throw GrammarError(
        "expected a regular expression of characters, classes, groups, alternatives and quantifiers, "
        "with ^ and $ at its ends only, got " +
        std::string(text_) + " (see character " + std::to_string(count_up_to(at_) + 1) + ")");
  }
  std::size_t count_up_to(std::size_t end) const {
    return static_cast<std::size_t>(
        std::count_if(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(std::min(end, text_.size())),
                      is_utf8_start));
  }
  bool at(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(char c) {
    if (!at(c)) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  RegexNode sequence(int depth) {
    RegexNode result;
    while (at_ < text_.size() && !at('|') && !at(')') && !at('$')) {
      RegexNode part = atom(depth);
      result.children.push_back(quantified(std::move(part)));
    }
    return result;
  }
  RegexNode atom(int depth) {
    if (take('(')) {
      if (depth >= kDeepestGroup) unexpected();
      if (at('?') && !take("?:")) unexpected();
      RegexNode group{RegexNode::Kind::alternatives};
      do group.children.push_back(sequence(depth + 1));
      while (take('|'));
      if (!take(')')) unexpected();
      return group;
    }
    if (take('[')) return set_node(character_class());
    if (take('.')) return set_node(complement(kLineEnds));
    if (take('\\')) return set_node(escape(false));
    if (at('*') || at('+') || at('?') || at('{') || at('^')) unexpected();
    const char32_t c = next_character(text_, at_);
    return set_node({{c, c}});
  }
  RegexNode quantified(RegexNode part) {
    std::int64_t least = 0, most = -1;
    if (take('*')) {
    } else if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (take('{')) {
      least = most = number();
      if (take(',')) most = at('}') ? -1 : number();
      if (!take('}') || (most >= 0 && most < least)) unexpected();
    } else {
      return part;
    }
    take('?');  // a lazy quantifier describes the same texts
    if (at('*') || at('+') || at('?') || at('{')) unexpected();
    RegexNode result{RegexNode::Kind::repetition, {}, {}, least, most};
    result.children.push_back(std::move(part));
    return result;
  }
  std::int64_t number() {
    if (at_ >= text_.size() || text_[at_] < '0' || text_[at_] > '9') unexpected();
    std::int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value * 10 + (text_[at_] - '0');
      if (value > kMostRepetitions)
        throw GrammarError("expected at most " + std::to_string(kMostRepetitions) +
                           " repetitions in a regular expression, got more");
    }
    return value;
  }
  char32_t hex(std::size_t digits) {
    char32_t value = 0;
    for (std::size_t i = 0; i < digits; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : ' ';
      const bool digit = c >= '0' && c <= '9', letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'f';
      if (!digit && !letter) unexpected();
      value = value * 16 + static_cast<char32_t>(digit ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
  }
  /// What follows a backslash.
  std::vector<CharRange> escape(bool in_class) {
    if (at_ >= text_.size()) unexpected();
    const char c = text_[at_++];
    const auto one = [](char32_t character) { return std::vector<CharRange>{{character, character}}; };
    switch (c) {
      case 'd': return kDigits;
      case 'D': return complement(kDigits);
      case 'w': return kWordCharacters;
      case 'W': return complement(kWordCharacters);
      case 's': return kSpaces;
      case 'S': return complement(kSpaces);
      case 'n': return one('\n');
      case 'r': return one('\r');
      case 't': return one('\t');
      case 'f': return one('\f');
      case 'v': return one('\v');
      case 'x': return one(hex(2));
      case 'u': {
        char32_t unit = hex(4);
        if (unit >= 0xD800 && unit < 0xDC00 && take("\\u")) {
          const char32_t low = hex(4);
          if (low < 0xDC00 || low > 0xDFFF) unexpected();
          unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        }
        return one(unit);
      }
      case 'b':
        if (in_class) return one('\b');
        break;
      case '0':
        if (at_ >= text_.size() || text_[at_] < '0' || text_[at_] > '9') return one(0);
        break;
      default:
        if (std::string_view("^$\\.*+?()[]{}|/-\"'#&~@%,:;<>=!_` ").find(c) != std::string_view::npos)
          return one(static_cast<char32_t>(c));
    }
    --at_;
    unexpected();
  }
  std::vector<CharRange> character_class() {
    const bool negated = take('^');
    std::vector<CharRange> set;
    while (!at(']')) {
      if (at_ >= text_.size()) unexpected();
      const std::vector<CharRange> first = class_atom();
      if (at('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        const std::vector<CharRange> last = class_atom();
        const auto single = [](const std::vector<CharRange>& ranges) {
          return ranges.size() == 1 && ranges[0].first == ranges[0].last;
        };
        if (!single(first) || !single(last) || first[0].first > last[0].first) unexpected();
        set.push_back({first[0].first, last[0].first});
      } else {
        set.insert(set.end(), first.begin(), first.end());
      }
    }
    ++at_;
    return negated ? complement(std::move(set)) : set;
  }
  std::vector<CharRange> class_atom() {
    if (at_ >= text_.size()) unexpected();
    if (take('\\')) return escape(true);
    const char32_t c = next_character(text_, at_);
    return {{c, c}};
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// Adds the texts of `node` after state `from`; returns the state after them.
std::uint32_t add_regex(CharAutomaton& texts, std::uint32_t from, const RegexNode& node) {
  switch (node.kind) {
    case RegexNode::Kind::set: {
      const std::uint32_t to = texts.add_state();
      for (const CharRange& range : node.set) texts.add_edge(from, range.first, range.last, to);
      return to;
    }
    case RegexNode::Kind::sequence:
      for (const RegexNode& child : node.children) from = add_regex(texts, from, child);
      return from;
    case RegexNode::Kind::alternatives: {
      const std::uint32_t to = texts.add_state();
      for (const RegexNode& child : node.children) {
        const std::uint32_t start = texts.add_state();
        texts.states[from].free.push_back(start);
        const std::uint32_t end = add_regex(texts, start, child);
        texts.states[end].free.push_back(to);
      }
      return to;
    }
    case RegexNode::Kind::repetition: break;
  }
  const RegexNode& part = node.children[0];
  const auto repeated = [&](std::int64_t times, std::uint32_t to) {
    for (std::int64_t i = 0; i < times; ++i) {
      if (to != 0) texts.states[from].free.push_back(to);
      const std::uint32_t start = texts.add_state();
      texts.states[from].free.push_back(start);
      from = add_regex(texts, start, part);
    }
  };
  repeated(node.least, 0);
  const std::uint32_t to = texts.add_state();
  if (node.most >= 0) {
    repeated(node.most - node.least, to);
    texts.states[from].free.push_back(to);
    return to;
  }
  texts.states[from].free.push_back(to);
  const std::uint32_t start = texts.add_state();
  texts.states[to].free.push_back(start);
  const std::uint32_t end = add_regex(texts, start, part);
  texts.states[end].free.push_back(to);
  const std::uint32_t after = texts.add_state();
  texts.states[to].free.push_back(after);
  return after;
}

// What RFC 3339, 4122, 2673, 4291, 1123 and 5321 describe, in the form that everybody accepts.
const std::array<std::pair<std::string_view, std::string>, 10>& format_patterns() {
  static const std::array<std::pair<std::string_view, std::string>, 10> kPatterns = [] {
    const std::string date =
        "((\\d\\d\\d[1-9]|\\d\\d[1-9]0|\\d[1-9]00|[1-9]000)-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|"
        "(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))|"
        "(\\d\\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)";
    const std::string hours = "([01]\\d|2[0-3]):[0-5]\\d";
    const std::string time = hours + ":[0-5]\\d(\\.\\d{1,9})?(Z|[+-]" + hours + ")";
    const std::string byte = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
    const std::string label = "[A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20})?";
    const std::string in_path = "[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}";
    const std::string word = "[0-9A-Fa-f]{1,4}";
    std::string ipv6 = "(" + word + ":){7}" + word;
    for (int before = 0; before <= 6; ++before) {
      const std::string left =
          before == 0 ? "" : word + "(:" + word + "){" + std::to_string(before - 1) + "}";
      const int most = 6 - before;
      ipv6 += "|" + left +
              "::" + (most == 0 ? "" : "(" + word + "(:" + word + "){0," + std::to_string(most - 1) + "})?");
    }
    return std::array<std::pair<std::string_view, std::string>, 10>{
        {{"date", date},
         {"date-time", date + "T" + time},
         {"time", time},
         {"duration",
          "P(\\d+W|(\\d+Y(\\d+M(\\d+D)?)?|\\d+M(\\d+D)?|\\d+D)(T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S))?"
          "|"
          "T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S))"},
         {"uuid", "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
         {"email", "[A-Za-z0-9_+-]+(\\.[A-Za-z0-9_+-]+)*@" + label + "(\\." + label + "){1,5}"},
         {"hostname", label + "(\\." + label + "){0,5}"},
         {"ipv4", byte + "(\\." + byte + "){3}"},
         {"ipv6", ipv6},
         {"uri", "[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9._~-]+(:\\d{1,5})?(/(" + in_path + ")*)*(\\?(" +
                     in_path + "|[/?])*)?(#(" + in_path + "|[/?])*)?"}}};
  }();
  return kPatterns;
}

}  // namespace

CharAutomaton regex_texts(std::string_view pattern, bool whole) {
  if (first_invalid_utf8(pattern))
    throw GrammarError("expected a regular expression in UTF-8, got other bytes");
  const RegexNode root = RegexParser(pattern).parse(whole);
  CharAutomaton texts;
  texts.states[add_regex(texts, texts.add_state(), root)].accepts = true;
  return texts;
}

const CharAutomaton* format_texts(std::string_view format) {
  static const std::map<std::string_view, CharAutomaton> kTexts = [] {
    std::map<std::string_view, CharAutomaton> texts;
    for (const auto& [name, pattern] : format_patterns()) texts.emplace(name, regex_texts(pattern, true));
    return texts;
  }();
  const auto found = kTexts.find(format);
  return found == kTexts.end() ? nullptr : &found->second;
}

}  // namespace heed::grammar
