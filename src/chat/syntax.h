// The syntax tree of a template, and how text becomes one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/value.h"

namespace heed::chat {

struct Expression {
  enum class Kind {
    constant,       // value
    name,           // name
    list,           // parts
    tuple,          // parts
    dict,           // parts: key, value, key, value, ...
    attribute,      // parts[0] . name
    item,           // parts[0] [ parts[1] ]
    slice,          // parts: start, stop, step, each a constant None if absent
    call,           // parts[0] ( arguments )
    filter,         // parts[0] | name ( arguments ); no part in a filter block
    test,           // parts[0] is name ( arguments )
    negation,       // not parts[0]
    minus,          // - parts[0]
    plus,           // + parts[0]
    arithmetic,     // parts[0] name parts[1]
    concatenation,  // parts joined by ~
    comparison,     // parts[0] names[0] parts[1] names[1] parts[2] ...
    conjunction,    // parts[0] and parts[1]
    disjunction,    // parts[0] or parts[1]
    choice,         // parts[0] if parts[1] else parts[2], which may be absent
  };
  struct Arguments {
    std::vector<Expression> positional;
    std::vector<std::pair<std::string, Expression>> named;
    std::vector<Expression> spread;        // *x: one or none
    std::vector<Expression> spread_named;  // **x: one or none
  };

  Kind kind = Kind::constant;
  int line = 1;
  int depth = 1;  // of the tree from here
  std::string name = {};
  Value value = {};
  std::vector<Expression> parts = {};
  std::vector<std::string> names = {};
  std::unique_ptr<Arguments> arguments = {};
};

struct MacroParameter {
  std::string name;
  std::vector<Expression> initial;  // one or none
};

struct Statement {
  enum class Kind {
    output,       // value, printed
    text,         // value, a constant, printed
    choose,       // branches; the condition of the last may be absent
    loop,         // for target in value if condition: body, otherwise
    assign,       // target = value
    assign_body,  // target = body, with filters
    with,         // assignments (targets and values in branches): body
    macro,        // name, parameters, body
    call,         // value, a call that gets body as its caller
    filter,       // filters of body
    generation,   // body
    stop,         // break
    skip,         // continue
  };
  struct Branch {
    std::vector<Expression> expressions;
    std::vector<Statement> body;
  };

  Kind kind = Kind::text;
  int line = 1;
  std::string name = {};
  Expression target = {};
  Expression value = {};
  std::vector<Expression> condition = {};  // one or none
  std::vector<Expression> filters = {};    // each Kind::filter without a part, in order
  std::vector<Branch> branches = {};
  std::vector<MacroParameter> parameters = {};
  std::vector<Statement> body = {};
  std::vector<Statement> otherwise = {};
  bool recursive = false;
  bool uses_caller = false;  // of macros: which names the body reads
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

/// A template as a syntax tree. Throws Error `NAME: line N: expected X, got Y`.
std::vector<Statement> parse_template(std::string_view text, const std::string& name);

}  // namespace heed::chat
