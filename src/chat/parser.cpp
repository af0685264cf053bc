// Statements, by recursive descent.
#include "chat/syntax.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "chat/expression_parser.h"
#include "core/utf8.h"
#include "heed/error.h"

namespace heed::chat {
namespace {

constexpr std::size_t kMaxTemplateBytes = std::size_t{1} << 20;

class Parser {
 public:
  using Kind = Statement::Kind;
  using Words = std::initializer_list<std::string_view>;

  Parser(std::vector<Token> tokens, const std::string& name)
      : tokens_(std::move(tokens), name), expressions_(tokens_) {}

  std::vector<Statement> run() { return statements({}); }

 private:
  /// Statements up to a block that begins with one of `ends`, whose name is then the current token; or, if
  /// there are none, up to the end of the template.
  std::vector<Statement> statements(Words ends) {
    std::vector<Statement> body;
    for (;;) {
      const int line = tokens_.line();
      if (tokens_.at(Token::Kind::text)) {
        Statement text = make(Kind::text, line);
        text.value.value = Value::text(tokens_.next().text, nullptr);
        body.push_back(std::move(text));
      } else if (tokens_.at(Token::Kind::variable_begin)) {
        tokens_.next();
        Statement output = make(Kind::output, line);
        output.value = expressions_.tuple();
        tokens_.expect(Token::Kind::variable_end, "}}");
        body.push_back(std::move(output));
      } else if (tokens_.at(Token::Kind::block_begin)) {
        tokens_.next();
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return tokens_.at_name(end); }))
          return body;
        expressions_.enter();
        body.push_back(statement(ends));
        expressions_.leave();
        tokens_.expect(Token::Kind::block_end, "%}");
      } else {
        if (ends.size() > 0) tokens_.fail_expecting("{% " + std::string(*(ends.end() - 1)) + " %}");
        return body;
      }
    }
  }

  /// After the head of a statement: its body, and the name of the block that ends it.
  std::vector<Statement> body(Words ends) {
    tokens_.skip_symbol(":");
    tokens_.expect(Token::Kind::block_end, "%}");
    return statements(ends);
  }
  std::vector<Statement> body_to(std::string_view end) {
    std::vector<Statement> result = body({end});
    tokens_.next();
    return result;
  }

  static Statement make(Kind kind, int line) {
    Statement result;
    result.kind = kind;
    result.line = line;
    return result;
  }

  Statement statement(Words ends) {
    const int line = tokens_.line();
    const std::string word = tokens_.expect_name("the name of a statement");
    if (word == "if") return choose(line);
    if (word == "for") return loop(line);
    if (word == "set") return assign(line);
    if (word == "with") return with(line);
    if (word == "macro") return macro(line);
    if (word == "call") return call(line);
    if (word == "filter") return filter(line);
    if (word == "generation") {
      Statement result = make(Kind::generation, line);
      result.body = outside_loops([&] { return body_to("endgeneration"); });
      return result;
    }
    if (word == "break" || word == "continue") {
      if (loops_ == 0) tokens_.fail_here("expected " + word + " within a loop, got it outside");
      return make(word == "break" ? Kind::stop : Kind::skip, line);
    }
    for (const char* refused : {"include", "import", "from", "extends", "block", "autoescape"}) {
      if (word == refused)
        tokens_.fail_here("expected a template that is whole in itself, got \"" + word +
                          "\", which chat templates do not have");
    }
    std::string expected = "a statement";
    for (const std::string_view end : ends) expected += " or " + std::string(end);
    tokens_.fail_here("expected " + expected + ", got \"" + word + "\"");
  }

  Statement choose(int line) {
    Statement result = make(Kind::choose, line);
    bool more = true;
    while (more) {
      Statement::Branch branch;
      branch.expressions.push_back(expressions_.tuple(false));
      branch.body = body({"elif", "else", "endif"});
      result.branches.push_back(std::move(branch));
      more = tokens_.skip_name("elif");
    }
    if (tokens_.skip_name("else")) {
      Statement::Branch branch;
      branch.body = body({"endif"});
      result.branches.push_back(std::move(branch));
    }
    tokens_.next();
    return result;
  }

  Statement loop(int line) {
    Statement result = make(Kind::loop, line);
    result.target = expressions_.target(false);
    if (!tokens_.skip_name("in")) tokens_.fail_expecting("\"in\"");
    result.value = expressions_.tuple(false);
    if (tokens_.skip_name("if")) result.condition.push_back(expressions_.expression());
    result.recursive = tokens_.skip_name("recursive");
    ++loops_;
    result.body = body({"else", "endfor"});
    --loops_;
    if (tokens_.skip_name("else")) result.otherwise = body({"endfor"});
    tokens_.next();
    return result;
  }

  Statement assign(int line) {
    Statement result = make(Kind::assign, line);
    result.target = expressions_.target(true);
    if (tokens_.skip_symbol("=")) {
      result.value = expressions_.tuple();
      return result;
    }
    result.kind = Kind::assign_body;
    if (tokens_.skip_symbol("|")) result.filters = expressions_.filters();
    result.body = body_to("endset");
    return result;
  }

  Statement with(int line) {
    Statement result = make(Kind::with, line);
    while (!tokens_.at(Token::Kind::block_end)) {
      if (!result.branches.empty()) tokens_.expect_symbol(",");
      Statement::Branch pair;
      // One name: a comma begins the next assignment.
      Expression name;
      name.kind = Expression::Kind::name;
      name.line = tokens_.line();
      name.name = tokens_.expect_name("a name to assign to");
      tokens_.expect_symbol("=");
      pair.expressions.push_back(std::move(name));
      pair.expressions.push_back(expressions_.expression());
      result.branches.push_back(std::move(pair));
    }
    result.body = body_to("endwith");
    return result;
  }

  /// (a, b=1, ...) of a macro or call block.
  std::vector<MacroParameter> parameters() {
    std::vector<MacroParameter> result;
    tokens_.expect_symbol("(");
    while (!tokens_.at_symbol(")")) {
      MacroParameter parameter{tokens_.expect_name("the name of a parameter"), {}};
      if (tokens_.skip_symbol("=")) {
        parameter.initial.push_back(expressions_.expression());
      } else if (!result.empty() && !result.back().initial.empty()) {
        tokens_.fail_here("expected a default for " + parameter.name +
                          ", as the parameter before it has one, got none");
      }
      result.push_back(std::move(parameter));
      if (!tokens_.at_symbol(")")) tokens_.expect_symbol(",");
    }
    tokens_.next();
    return result;
  }

  /// The body of a macro: loops around it are not its own, and what it reads is recorded.
  void macro_body(Statement& macro, std::string_view end) {
    const ExpressionParser::Special before = expressions_.special();
    macro.body = outside_loops([&] { return body_to(end); });
    const ExpressionParser::Special& after = expressions_.special();
    macro.uses_caller = after.caller > before.caller;
    macro.uses_varargs = after.varargs > before.varargs;
    macro.uses_kwargs = after.kwargs > before.kwargs;
  }

  template <class Parse>
  std::vector<Statement> outside_loops(const Parse& parse) {
    const int loops = std::exchange(loops_, 0);
    std::vector<Statement> result = parse();
    loops_ = loops;
    return result;
  }

  Statement macro(int line) {
    Statement result = make(Kind::macro, line);
    result.name = tokens_.expect_name("the name of a macro");
    result.parameters = parameters();
    macro_body(result, "endmacro");
    return result;
  }

  Statement call(int line) {
    Statement result = make(Kind::call, line);
    result.name = "caller";
    if (tokens_.at_symbol("(")) result.parameters = parameters();
    result.value = expressions_.expression();
    if (result.value.kind != Expression::Kind::call)
      tokens_.fail_here("expected a call in {% call %}, got another expression");
    macro_body(result, "endcall");
    return result;
  }

  Statement filter(int line) {
    Statement result = make(Kind::filter, line);
    result.filters = expressions_.filters();
    result.body = body_to("endfilter");
    return result;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int loops_ = 0;
};

}  // namespace

std::vector<Statement> parse_template(std::string_view text, const std::string& name) {
  if (text.size() > kMaxTemplateBytes) {
    throw Error(name + ": expected a template of at most 1 MiB, got " + std::to_string(text.size()) +
                " bytes");
  }
  if (const auto bad = first_invalid_utf8(text))
    throw Error(name + ": expected UTF-8, got bytes that are not, from byte " + std::to_string(*bad));
  return Parser(tokenize(text, name), name).run();
}

}  // namespace heed::chat
