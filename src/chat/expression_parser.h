// The expressions of a template, with the precedence of jinja2.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "chat/lexer.h"
#include "chat/syntax.h"

namespace heed::chat {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  Expression expression();
  /// One expression, or several with commas between them: a tuple. `choices` tells whether `x if y` may be
  /// there.
  Expression tuple(bool choices = true);
  /// What can be assigned to: names, tuples of them, and with `attributes` those of namespaces.
  Expression target(bool attributes);
  /// A call or filter's (...).
  std::unique_ptr<Expression::Arguments> arguments();
  /// `name (arguments) | name ...`: filters without their input.
  std::vector<Expression> filters();

  /// The names that have been read so far and that macros treat on their own: caller, varargs, kwargs.
  struct Special {
    int caller = 0, varargs = 0, kwargs = 0;
  };
  const Special& special() const { return special_; }
  /// Enters a level of nesting, of statements too; throws Error if it is too deep.
  void enter();
  void leave() { --depth_; }

 private:
  using Kind = Expression::Kind;
  Expression make(Kind kind, int line, std::vector<Expression> parts, std::string name = {});
  Expression disjunction();
  Expression conjunction();
  Expression negation();
  Expression comparison();
  Expression arithmetic(int level);
  Expression concatenation();
  Expression unary(bool with_filters);
  Expression primary();
  Expression name();
  Expression number();
  Expression list();
  Expression dict();
  Expression postfix(Expression input);
  Expression filtered(Expression input);
  Expression filter(std::vector<Expression> input);
  Expression test(Expression input);
  Expression subscript(Expression input);
  Expression index();
  Expression call(Expression callee);
  Expression target_part(bool attributes);
  bool at_tuple_end() const;
  Expression with_depth(Expression made);

  TokenStream& tokens_;
  Special special_;
  int depth_ = 0;
};

}  // namespace heed::chat
