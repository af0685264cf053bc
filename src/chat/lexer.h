// The tokens of a template: its text, with white space removed as `-`, trim_blocks and lstrip_blocks say, and
// the words of what stands in {{ }} and {% %}.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heed::chat {

struct Token {
  enum class Kind {
    text,
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    string,
    integer,
    real,
    symbol,
    end,
  };
  Kind kind;
  std::string text;  // of strings, what they mean; of numbers, without underscores
  int line;
};

/// Throws Error `NAME: line N: ...`.
std::vector<Token> tokenize(std::string_view text, const std::string& name);

[[noreturn]] void fail(const std::string& name, int line, const std::string& message);

/// The tokens of a template as parsers read them, one after the other.
class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, const std::string& name) : tokens_(std::move(tokens)), name_(name) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& next() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  int line() const { return current().line; }

  bool at(Token::Kind kind) const { return current().kind == kind; }
  bool at_symbol(std::string_view symbol) const { return is(current(), Token::Kind::symbol, symbol); }
  bool at_name(std::string_view name) const { return is(current(), Token::Kind::name, name); }
  static bool is(const Token& token, Token::Kind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  bool skip_symbol(std::string_view symbol) { return at_symbol(symbol) && (next(), true); }
  bool skip_name(std::string_view name) { return at_name(name) && (next(), true); }

  void expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) fail_expecting("\"" + std::string(symbol) + "\"");
  }
  void expect(Token::Kind kind, const std::string& expected) {
    if (!at(kind)) fail_expecting(expected);
    next();
  }
  std::string expect_name(const std::string& expected) {
    if (!at(Token::Kind::name)) fail_expecting(expected);
    return next().text;
  }
  [[noreturn]] void fail_expecting(const std::string& expected) const {
    fail_here("expected " + expected + ", got " + shown(current()));
  }
  [[noreturn]] void fail_here(const std::string& message) const { fail(name_, line(), message); }

 private:
  static std::string shown(const Token& token) {
    switch (token.kind) {
      case Token::Kind::text: return "text";
      case Token::Kind::variable_begin: return "{{";
      case Token::Kind::variable_end: return "}}";
      case Token::Kind::block_begin: return "{%";
      case Token::Kind::block_end: return "%}";
      case Token::Kind::string: return "a string";
      case Token::Kind::end: return "the end of the template";
      default: return "\"" + token.text + "\"";
    }
  }

  std::vector<Token> tokens_;
  const std::string& name_;
  std::size_t at_ = 0;
};

}  // namespace heed::chat
