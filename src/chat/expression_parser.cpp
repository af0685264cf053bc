// Expressions, one function for each level of precedence.
#include "chat/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace heed::chat {
namespace {

constexpr int kMaxNesting = 64;     // of what calls itself while it parses
constexpr int kMaxTreeDepth = 200;  // of a tree, which a long sum makes deep as well

/// An initializer list would copy its elements, which cannot be copied.
template <class... Parts>
std::vector<Expression> parts_of(Parts... parts) {
  std::vector<Expression> result;
  result.reserve(sizeof...(parts));
  (result.push_back(std::move(parts)), ...);
  return result;
}

Expression none_at(int line) {
  Expression result;
  result.line = line;
  return result;
}

}  // namespace

void ExpressionParser::enter() {
  if (++depth_ > kMaxNesting)
    tokens_.fail_here("expected nesting of at most " + std::to_string(kMaxNesting) + ", got deeper nesting");
}

Expression ExpressionParser::with_depth(Expression made) {
  const auto deepen = [&](const Expression& part) { made.depth = std::max(made.depth, part.depth + 1); };
  for (const Expression& part : made.parts) deepen(part);
  if (made.arguments != nullptr) {
    for (const Expression& part : made.arguments->positional) deepen(part);
    for (const auto& part : made.arguments->named) deepen(part.second);
    for (const Expression& part : made.arguments->spread) deepen(part);
    for (const Expression& part : made.arguments->spread_named) deepen(part);
  }
  if (made.depth > kMaxTreeDepth) {
    tokens_.fail_here("expected an expression of at most " + std::to_string(kMaxTreeDepth) +
                      " steps one upon another, got more");
  }
  return made;
}

Expression ExpressionParser::make(Kind kind, int line, std::vector<Expression> parts, std::string name) {
  Expression result;
  result.kind = kind;
  result.line = line;
  result.parts = std::move(parts);
  result.name = std::move(name);
  return with_depth(std::move(result));
}

Expression ExpressionParser::expression() {
  enter();
  const int line = tokens_.line();
  Expression result = disjunction();
  while (tokens_.skip_name("if")) {
    std::vector<Expression> parts = parts_of(std::move(result), disjunction());
    if (tokens_.skip_name("else")) parts.push_back(expression());
    result = make(Kind::choice, line, std::move(parts));
  }
  leave();
  return result;
}

Expression ExpressionParser::tuple(bool choices) {
  const int line = tokens_.line();
  std::vector<Expression> parts;
  bool is_tuple = false;
  do {
    if (at_tuple_end()) break;
    parts.push_back(choices ? expression() : disjunction());
    is_tuple = is_tuple || tokens_.at_symbol(",");
  } while (tokens_.skip_symbol(","));
  if (!is_tuple && parts.size() == 1) return std::move(parts.front());
  if (!is_tuple) tokens_.fail_expecting("an expression");
  return make(Kind::tuple, line, std::move(parts));
}

bool ExpressionParser::at_tuple_end() const {
  return tokens_.at(Token::Kind::variable_end) || tokens_.at(Token::Kind::block_end) ||
         tokens_.at_symbol(")");
}

Expression ExpressionParser::target(bool attributes) {
  const int line = tokens_.line();
  std::vector<Expression> parts;
  bool is_tuple = false;
  do {
    if (at_tuple_end() || (!attributes && tokens_.at_name("in"))) break;
    parts.push_back(target_part(attributes));
    is_tuple = is_tuple || tokens_.at_symbol(",");
  } while (tokens_.skip_symbol(","));
  if (!is_tuple && parts.size() == 1) return std::move(parts.front());
  if (parts.empty()) tokens_.fail_expecting("a name to assign to");
  return make(Kind::tuple, line, std::move(parts));
}

Expression ExpressionParser::target_part(bool attributes) {
  const int line = tokens_.line();
  if (tokens_.skip_symbol("(")) {
    enter();
    Expression inner = target(false);
    leave();
    tokens_.expect_symbol(")");
    return inner;
  }
  const std::string name = tokens_.expect_name("a name to assign to");
  for (const char* word : {"true", "false", "none", "True", "False", "None"}) {
    if (name == word) tokens_.fail_here("expected a name to assign to, got \"" + name + "\"");
  }
  Expression result = make(Kind::name, line, {}, name);
  if (!attributes || !tokens_.skip_symbol(".")) return result;
  std::string attribute = tokens_.expect_name("the name of an attribute");
  return make(Kind::attribute, line, parts_of(std::move(result)), std::move(attribute));
}

Expression ExpressionParser::disjunction() {
  const int line = tokens_.line();
  Expression left = conjunction();
  while (tokens_.skip_name("or"))
    left = make(Kind::disjunction, line, parts_of(std::move(left), conjunction()));
  return left;
}

Expression ExpressionParser::conjunction() {
  const int line = tokens_.line();
  Expression left = negation();
  while (tokens_.skip_name("and"))
    left = make(Kind::conjunction, line, parts_of(std::move(left), negation()));
  return left;
}

Expression ExpressionParser::negation() {
  const int line = tokens_.line();
  if (!tokens_.skip_name("not")) return comparison();
  enter();
  Expression input = negation();
  leave();
  return make(Kind::negation, line, parts_of(std::move(input)));
}

Expression ExpressionParser::comparison() {
  const int line = tokens_.line();
  std::vector<Expression> parts = parts_of(arithmetic(0));
  std::vector<std::string> names;
  for (;;) {
    std::string name;
    for (const char* symbol : {"==", "!=", ">", ">=", "<", "<="}) {
      if (tokens_.skip_symbol(symbol)) name = symbol;
      if (!name.empty()) break;
    }
    if (name.empty() && tokens_.skip_name("in")) name = "in";
    if (name.empty() && tokens_.at_name("not") &&
        TokenStream::is(tokens_.following(), Token::Kind::name, "in")) {
      tokens_.next();
      tokens_.next();
      name = "not in";
    }
    if (name.empty()) break;
    names.push_back(std::move(name));
    parts.push_back(arithmetic(0));
  }
  if (names.empty()) return std::move(parts.front());
  Expression result = make(Kind::comparison, line, std::move(parts));
  result.names = std::move(names);
  return result;
}

// Level 0: + and -; between it and level 1, *, /, // and %, is ~; level 2: **. All join from the left.
Expression ExpressionParser::arithmetic(int level) {
  static const std::vector<std::string_view> kSymbols[] = {{"+", "-"}, {"*", "/", "//", "%"}, {"**"}};
  const int line = tokens_.line();
  const auto operand = [&] {
    return level == 0 ? concatenation() : level == 1 ? arithmetic(2) : unary(true);
  };
  Expression left = operand();
  for (;;) {
    std::string name;
    for (const std::string_view symbol : kSymbols[level]) {
      if (name.empty() && tokens_.skip_symbol(symbol)) name = symbol;
    }
    if (name.empty()) return left;
    left = make(Kind::arithmetic, line, parts_of(std::move(left), operand()), std::move(name));
  }
}

Expression ExpressionParser::concatenation() {
  const int line = tokens_.line();
  std::vector<Expression> parts = parts_of(arithmetic(1));
  while (tokens_.skip_symbol("~")) parts.push_back(arithmetic(1));
  if (parts.size() == 1) return std::move(parts.front());
  return make(Kind::concatenation, line, std::move(parts));
}

Expression ExpressionParser::unary(bool with_filters) {
  const int line = tokens_.line();
  const bool minus = tokens_.at_symbol("-");
  Expression result;
  if (minus || tokens_.at_symbol("+")) {
    tokens_.next();
    enter();
    result = unary(false);
    leave();
    result = make(minus ? Kind::minus : Kind::plus, line, parts_of(std::move(result)));
  } else {
    result = primary();
  }
  result = postfix(std::move(result));
  return with_filters ? filtered(std::move(result)) : std::move(result);
}

Expression ExpressionParser::primary() {
  const int line = tokens_.line();
  switch (tokens_.current().kind) {
    case Token::Kind::name: return name();
    case Token::Kind::integer:
    case Token::Kind::real: return number();
    case Token::Kind::string: {
      std::string text;
      while (tokens_.at(Token::Kind::string)) text += tokens_.next().text;
      Expression result = none_at(line);
      result.value = Value::text(std::move(text), nullptr);
      return result;
    }
    default: break;
  }
  if (tokens_.at_symbol("[")) return list();
  if (tokens_.at_symbol("{")) return dict();
  if (!tokens_.skip_symbol("(")) tokens_.fail_expecting("an expression");
  Expression result = tokens_.at_symbol(")") ? make(Kind::tuple, line, {}) : tuple();
  tokens_.expect_symbol(")");
  return result;
}

Expression ExpressionParser::name() {
  const int line = tokens_.line();
  std::string name = tokens_.next().text;
  Expression result = none_at(line);
  if (name == "none" || name == "None") return result;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    result.value = Value::boolean(name == "true" || name == "True");
    return result;
  }
  special_.caller += name == "caller" ? 1 : 0;
  special_.varargs += name == "varargs" ? 1 : 0;
  special_.kwargs += name == "kwargs" ? 1 : 0;
  return make(Kind::name, line, {}, std::move(name));
}

Expression ExpressionParser::number() {
  const Token& token = tokens_.next();
  std::string_view text = token.text;
  Expression result = none_at(token.line);
  if (token.kind == Token::Kind::real) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    result.value = Value::real(value);
    return result;
  }
  int base = 10;
  if (text.size() > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 'o' || text[1] == 'b')) {
    base = text[1] == 'x' ? 16 : text[1] == 'o' ? 8 : 2;
    text.remove_prefix(2);
  }
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size())
    tokens_.fail_here("expected an integer of 64 bits, got " + token.text);
  result.value = Value::integer(value);
  return result;
}

Expression ExpressionParser::list() {
  const int line = tokens_.next().line;
  std::vector<Expression> parts;
  while (!tokens_.at_symbol("]")) {
    parts.push_back(expression());
    if (!tokens_.at_symbol("]")) tokens_.expect_symbol(",");
  }
  tokens_.next();
  return make(Kind::list, line, std::move(parts));
}

Expression ExpressionParser::dict() {
  const int line = tokens_.next().line;
  std::vector<Expression> parts;
  while (!tokens_.at_symbol("}")) {
    parts.push_back(expression());
    tokens_.expect_symbol(":");
    parts.push_back(expression());
    if (!tokens_.at_symbol("}")) tokens_.expect_symbol(",");
  }
  tokens_.next();
  return make(Kind::dict, line, std::move(parts));
}

Expression ExpressionParser::postfix(Expression input) {
  for (;;) {
    if (tokens_.at_symbol(".") || tokens_.at_symbol("[")) {
      input = subscript(std::move(input));
    } else if (tokens_.at_symbol("(")) {
      input = call(std::move(input));
    } else {
      return input;
    }
  }
}

Expression ExpressionParser::filtered(Expression input) {
  for (;;) {
    if (tokens_.skip_symbol("|")) {
      input = filter(parts_of(std::move(input)));
    } else if (tokens_.at_name("is")) {
      input = test(std::move(input));
    } else if (tokens_.at_symbol("(")) {
      input = call(std::move(input));
    } else {
      return input;
    }
  }
}

Expression ExpressionParser::filter(std::vector<Expression> input) {
  Expression result;
  result.kind = Kind::filter;
  result.line = tokens_.line();
  result.name = tokens_.expect_name("the name of a filter");
  result.parts = std::move(input);
  result.arguments = tokens_.at_symbol("(") ? arguments() : std::make_unique<Expression::Arguments>();
  return with_depth(std::move(result));
}

std::vector<Expression> ExpressionParser::filters() {
  std::vector<Expression> result;
  do {
    result.push_back(filter({}));
  } while (tokens_.skip_symbol("|"));
  return result;
}

Expression ExpressionParser::test(Expression input) {
  const int line = tokens_.next().line;
  const bool negated = tokens_.skip_name("not");
  Expression result;
  result.kind = Kind::test;
  result.line = line;
  result.name = tokens_.expect_name("the name of a test");
  result.parts = parts_of(std::move(input));
  result.arguments = std::make_unique<Expression::Arguments>();
  const bool value_follows = tokens_.at(Token::Kind::name) || tokens_.at(Token::Kind::string) ||
                             tokens_.at(Token::Kind::integer) || tokens_.at(Token::Kind::real) ||
                             tokens_.at_symbol("[") || tokens_.at_symbol("{");
  if (tokens_.at_symbol("(")) {
    result.arguments = arguments();
  } else if (value_follows && !tokens_.at_name("else") && !tokens_.at_name("or") && !tokens_.at_name("and")) {
    if (tokens_.at_name("is")) tokens_.fail_here("expected one test, got \"is\" after another");
    enter();
    result.arguments->positional.push_back(postfix(primary()));
    leave();
  }
  result = with_depth(std::move(result));
  return negated ? make(Kind::negation, line, parts_of(std::move(result))) : std::move(result);
}

Expression ExpressionParser::subscript(Expression input) {
  const int line = tokens_.line();
  if (tokens_.skip_symbol(".")) {
    if (tokens_.at(Token::Kind::name))
      return make(Kind::attribute, line, parts_of(std::move(input)), tokens_.next().text);
    if (!tokens_.at(Token::Kind::integer)) tokens_.fail_expecting("a name or number after \".\"");
    return make(Kind::item, line, parts_of(std::move(input), number()));
  }
  tokens_.next();
  std::vector<Expression> indices;
  while (!tokens_.at_symbol("]")) {
    indices.push_back(index());
    if (!tokens_.at_symbol("]")) tokens_.expect_symbol(",");
  }
  tokens_.next();
  Expression key =
      indices.size() == 1 ? std::move(indices.front()) : make(Kind::tuple, line, std::move(indices));
  return make(Kind::item, line, parts_of(std::move(input), std::move(key)));
}

Expression ExpressionParser::index() {
  const int line = tokens_.line();
  std::vector<Expression> parts;
  const auto at_part_end = [&] {
    return tokens_.at_symbol(":") || tokens_.at_symbol("]") || tokens_.at_symbol(",");
  };
  parts.push_back(tokens_.at_symbol(":") ? none_at(line) : expression());
  if (!tokens_.at_symbol(":")) return std::move(parts.front());
  while (parts.size() < 3) {
    const bool given = tokens_.skip_symbol(":") && !at_part_end();
    parts.push_back(given ? expression() : none_at(line));
  }
  return make(Kind::slice, line, std::move(parts));
}

Expression ExpressionParser::call(Expression callee) {
  Expression result;
  result.kind = Kind::call;
  result.line = tokens_.line();
  result.parts = parts_of(std::move(callee));
  result.arguments = arguments();
  return with_depth(std::move(result));
}

std::unique_ptr<Expression::Arguments> ExpressionParser::arguments() {
  auto result = std::make_unique<Expression::Arguments>();
  tokens_.expect_symbol("(");
  while (!tokens_.at_symbol(")")) {
    const bool spread_before = !result->spread.empty() || !result->spread_named.empty();
    if (tokens_.at_symbol("*") && !spread_before) {
      tokens_.next();
      result->spread.push_back(expression());
    } else if (tokens_.at_symbol("**") && result->spread_named.empty()) {
      tokens_.next();
      result->spread_named.push_back(expression());
    } else if (tokens_.at(Token::Kind::name) &&
               TokenStream::is(tokens_.following(), Token::Kind::symbol, "=") &&
               result->spread_named.empty()) {
      std::string name = tokens_.next().text;
      tokens_.next();
      result->named.emplace_back(std::move(name), expression());
    } else {
      if (spread_before || !result->named.empty()) tokens_.fail_expecting("an argument with a name");
      result->positional.push_back(expression());
    }
    if (!tokens_.at_symbol(")")) tokens_.expect_symbol(",");
  }
  tokens_.next();
  return result;
}

}  // namespace heed::chat
