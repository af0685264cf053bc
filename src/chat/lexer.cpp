// Cuts a template into tokens.
#include "chat/lexer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "chat/letters.h"
#include "core/utf8.h"
#include "heed/error.h"
#include "heed/text/unicode.h"

namespace heed::chat {
namespace {

bool is_digit_of(char c, int base) {
  const int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : 99;
  return digit < base;
}

std::string_view without_last_spaces(std::string_view text) {
  const std::string_view kept = strip(text);
  return kept.empty() ? text.substr(0, 0)
                      : text.substr(0, static_cast<std::size_t>(kept.data() - text.data()) + kept.size());
}

/// The source with "\n" for each end of line, without the last of them.
std::string one_newline(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      result += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      result += text[i];
    }
  }
  if (result.ends_with('\n')) result.pop_back();
  return result;
}

class Lexer {
 public:
  using Kind = Token::Kind;
  Lexer(std::string_view text, const std::string& name)
      : source_(one_newline(text)), text_(source_), name_(name) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) outside();
    add(Kind::end, {});
    return std::move(tokens_);
  }

 private:
  bool at(std::string_view expected) const { return text_.substr(at_, expected.size()) == expected; }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  [[noreturn]] void fail_here(const std::string& message) { fail(name_, line_, message); }

  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void advance(std::size_t bytes) {
    const std::string_view passed = text_.substr(at_, bytes);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    if (!passed.empty()) line_starts_ = passed.back() == '\n';
    at_ += passed.size();
  }

  void skip_space() {
    std::size_t end = at_;
    while (end < text_.size()) {
      std::size_t next = end;
      if (!is_space(next_character(text_, next))) break;
      end = next;
    }
    advance(end - at_);
  }

  /// Adds the text before what begins at `end`, without the space that the beginning's sign takes.
  void add_text(std::size_t end, bool strips_lines) {
    std::string_view text = text_.substr(at_, end - at_);
    const char sign = end + 2 < text_.size() ? text_[end + 2] : '\0';
    if (sign == '-') {
      text = without_last_spaces(text);
    } else if (sign != '+' && strips_lines) {
      const std::size_t line = text.rfind('\n') + 1;  // 0 if there is none
      if ((line > 0 || line_starts_) && strip(text.substr(line)).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) add(Kind::text, std::string(text));
    advance(end - at_);
  }

  /// Text up to the next {{, {% or {#, and that.
  void outside() {
    std::size_t end = text_.find('{', at_);
    while (end != text_.npos && text_.substr(end, 2) != "{{" && text_.substr(end, 2) != "{%" &&
           text_.substr(end, 2) != "{#") {
      end = text_.find('{', end + 1);
    }
    if (end == text_.npos) {
      add(Kind::text, std::string(text_.substr(at_)));
      advance(text_.size() - at_);
      return;
    }
    const char kind = text_[end + 1];
    add_text(end, kind != '{');
    advance(2);
    if (peek() == '-' || peek() == '+') advance(1);
    if (kind == '#') return comment();
    if (kind == '%' && raw()) return;
    add(kind == '{' ? Kind::variable_begin : Kind::block_begin, {});
    inside(kind == '{' ? "}}" : "%}");
    add(kind == '{' ? Kind::variable_end : Kind::block_end, {});
  }

  /// If `end` (%}, #} or }}) comes next, with or without a sign, passes it and the space it takes.
  bool pass_end(std::string_view end, bool trims_newline) {
    const char sign = peek();
    const bool strips = sign == '-', keeps = sign == '+' && end != "}}";
    if (text_.substr(at_ + (strips || keeps ? 1 : 0), 2) != end) return false;
    advance(strips || keeps ? 3 : 2);
    if (strips) skip_space();
    if (!strips && !keeps && trims_newline && peek() == '\n') advance(1);
    return true;
  }

  void comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == text_.npos) fail_here("expected #} after {#, got the end of the template");
    const char sign = end > at_ ? text_[end - 1] : '\0';
    advance(end - at_ - (sign == '-' || sign == '+' ? 1 : 0));
    pass_end("#}", true);
  }

  /// Reads the rest of {% raw %}, and up to {% endraw %}, if that is here.
  bool raw() {
    const std::size_t end = word_block("raw", at_);
    if (end == text_.npos) return false;
    const bool strips = text_[end - 3] == '-';
    advance(end - at_);
    if (strips) skip_space();
    for (std::size_t next = text_.find("{%", at_); next != text_.npos; next = text_.find("{%", next + 1)) {
      const char sign = next + 2 < text_.size() ? text_[next + 2] : '\0';
      const std::size_t close = word_block("endraw", next + (sign == '-' || sign == '+' ? 3 : 2));
      if (close == text_.npos) continue;
      add_text(next, true);
      const char last = text_[close - 3];
      advance(close - at_ - 2 - (last == '-' || last == '+' ? 1 : 0));
      pass_end("%}", true);
      return true;
    }
    fail_here("expected {% endraw %} after {% raw %}, got the end of the template");
  }

  /// Where a block that is `word` alone, read from `from`, ends; npos if it is another.
  std::size_t word_block(std::string_view word, std::size_t from) const {
    const auto skip = [&](std::size_t i) {
      while (i < text_.size() && is_space(static_cast<unsigned char>(text_[i]))) ++i;
      return i;
    };
    std::size_t i = skip(from);
    if (text_.substr(i, word.size()) != word) return text_.npos;
    i = skip(i + word.size());
    if (i < text_.size() && (text_[i] == '-' || (text_[i] == '+' && word == "endraw"))) ++i;
    return text_.substr(i, 2) == "%}" ? i + 2 : text_.npos;
  }

  void inside(std::string_view end) {
    std::string open;
    for (;;) {
      if (open.empty() && pass_end(end, end == "%}")) return;
      const std::size_t before = at_;
      skip_space();
      if (at_ != before) continue;
      if (at_ >= text_.size()) {
        fail_here("expected " + (open.empty() ? std::string(end) : std::string(1, open.back())) +
                  ", got the end of the template");
      }
      word(open);
    }
  }

  void word(std::string& open) {
    const char c = peek();
    if (c == '\'' || c == '"') return string(c);
    if (c >= '0' && c <= '9') return number();
    std::size_t end = at_;
    while (end < text_.size()) {
      std::size_t next = end;
      const char32_t letter = next_character(text_, next);
      if (letter != '_' && !is_alphabetic(letter) && !is_numeric(letter)) break;
      end = next;
    }
    if (end > at_) {
      add(Kind::name, std::string(text_.substr(at_, end - at_)));
      return advance(end - at_);
    }
    symbol(open);
  }

  void symbol(std::string& open) {
    for (const std::string_view two : {"==", "!=", ">=", "<=", "//", "**"}) {
      if (!at(two)) continue;
      add(Kind::symbol, std::string(two));
      return advance(2);
    }
    const char c = peek();
    if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == std::string_view::npos || c == '\0') {
      std::size_t next = at_;
      next_character(text_, next);
      fail_here("expected an expression, got \"" + std::string(text_.substr(at_, next - at_)) + "\"");
    }
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) {
        fail_here(std::string("expected ") +
                  (open.empty() ? "an expression" : "\"" + open.substr(open.size() - 1) + "\"") + ", got \"" +
                  c + "\"");
      }
      open.pop_back();
    }
    add(Kind::symbol, std::string(1, c));
    advance(1);
  }

  /// Passes digits with single underscores between them, and returns the digits.
  std::string digits(int base) {
    std::string result;
    while (is_digit_of(peek(), base) || (peek() == '_' && !result.empty() && is_digit_of(peek(1), base))) {
      if (peek() != '_') result += peek();
      advance(1);
    }
    return result;
  }

  void number() {
    const char letter = static_cast<char>(peek(1) | 0x20);
    const int base = peek() != '0' ? 10 : letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    if (base != 10) {
      const std::string prefix(text_.substr(at_, 2));
      advance(2);
      return add(Kind::integer, "0" + std::string(1, letter) + digits(base));
    }
    std::string text = digits(10);
    bool real = false;
    if (peek() == '.' && is_digit_of(peek(1), 10) && !after_dot()) {
      advance(1);
      text += "." + digits(10);
      real = true;
    }
    const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if ((peek() | 0x20) == 'e' && is_digit_of(peek(1 + sign), 10) && !after_dot()) {
      text += "e";
      if (sign == 1) text += peek(1);
      advance(1 + sign);
      text += digits(10);
      real = true;
    }
    add(real ? Kind::real : Kind::integer, std::move(text));
  }

  /// x.1.2 are two items, not a number 1.2.
  bool after_dot() const {
    return !tokens_.empty() && tokens_.back().kind == Kind::symbol && tokens_.back().text == ".";
  }

  void string(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) fail_here("expected the closing quote of a string, got the end of the template");
    add(Kind::string, meaning(text_.substr(at_ + 1, end - at_ - 1)));
    advance(end + 1 - at_);
  }

  /// What a string with escapes means.
  std::string meaning(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        result += text[i];
        continue;
      }
      const char c = text[++i];
      constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
      if (const std::size_t plain = kLetters.find(c); plain != kLetters.npos) {
        result += kMeanings[plain];
      } else if (c >= '0' && c <= '7') {
        append_code(result, text, i, 3, 8);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        ++i;
        append_code(result, text, i, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16);
      } else if (c == 'N') {
        fail_here("expected an escape other than \\N in a string (use \\u)");
      } else if (c != '\n') {
        result += '\\';
        result += c;
      }
    }
    return result;
  }

  /// Appends the character whose code is at `i`, and leaves `i` at its last digit.
  void append_code(std::string& result, std::string_view text, std::size_t& i, std::size_t most, int base) {
    char32_t code = 0;
    std::size_t count = 0;
    for (; count < most && i < text.size() && is_digit_of(text[i], base); ++count, ++i) {
      const char c = text[i];
      code = code * static_cast<char32_t>(base) +
             static_cast<char32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (base == 16 && count < most)
      fail_here("expected " + std::to_string(most) + " hexadecimal digits in an escape of a string");
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      fail_here("expected the code of a character in an escape of a string");
    append_utf8(result, code);
    --i;
  }

  std::string source_;
  std::string_view text_;
  const std::string& name_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // what has been read ends with a newline
};

}  // namespace

void fail(const std::string& name, int line, const std::string& message) {
  throw Error(name + ": line " + std::to_string(line) + ": " + message);
}

std::vector<Token> tokenize(std::string_view text, const std::string& name) {
  return Lexer(text, name).run();
}

}  // namespace heed::chat
