// Statements: loops, blocks, macros, and scopes of variables.
#include "chat/renderer.h"

#include <algorithm>
#include <utility>

#include "chat/functions.h"
#include "chat/lexer.h"

namespace heed::chat {

namespace {

constexpr int kMaxRunDepth = 400;  // of statements and expressions that run one within another

/// A macro, or the caller that a call block makes of its body.
struct Macro : Object {
  Macro(const Statement& from, std::shared_ptr<Scope> where) : statement(from), scope(std::move(where)) {}
  std::string type() const override { return "Macro"; }
  bool is_callable() const override { return true; }
  Value call(Renderer& renderer, const CallArguments& arguments) override {
    return renderer.call_macro(statement, scope, arguments);
  }
  std::optional<Value> attribute(std::string_view name, const Value&, Budget& budget) const override {
    if (name == "name") return Value::text(statement.name, &budget);
    if (name == "catch_varargs") return Value::boolean(statement.uses_varargs);
    if (name == "catch_kwargs") return Value::boolean(statement.uses_kwargs);
    if (name == "caller") return Value::boolean(statement.uses_caller);
    if (name != "arguments") return std::nullopt;
    Values names;
    for (const MacroParameter& parameter : statement.parameters)
      names.push_back(Value::text(parameter.name, &budget));
    return Value::tuple(std::move(names), &budget);
  }

  const Statement& statement;
  std::shared_ptr<Scope> scope;
};

/// `loop` within a loop.
struct Loop : Object {
  Loop(const Statement& from, Value all, std::shared_ptr<Scope> where, int level)
      : statement(from), elements(std::move(all)), scope(std::move(where)), depth0(level) {
    depth = elements.depth() + 1;
  }
  std::string type() const override { return "LoopContext"; }
  bool is_callable() const override { return true; }
  Value call(Renderer& renderer, const CallArguments& arguments) override {
    const BoundArguments bound(arguments, "loop", {"iterable"}, 1);
    if (!statement.recursive)
      throw TemplateError("expected a loop that is recursive, got one without that word");
    return renderer.call_loop(statement, scope, *bound[0], depth0 + 1);
  }
  std::optional<Value> attribute(std::string_view name, const Value& self, Budget& budget) const override;
  void release() override { last_seen.reset(); }
  const Value* at(std::int64_t place) const {
    const Values& items = elements.items_so_far();
    return place < 0 || place >= static_cast<std::int64_t>(items.size())
               ? nullptr
               : &items[static_cast<std::size_t>(place)];
  }

  const Statement& statement;
  Value elements;
  std::shared_ptr<Scope> scope;
  int depth0;
  std::int64_t index0 = 0;
  mutable std::optional<Values> last_seen = std::nullopt;  // of loop.changed
};

/// loop.cycle and loop.changed.
struct LoopMethod : Object {
  LoopMethod(Value self, bool is_changed) : loop(std::move(self)), changed(is_changed) {
    depth = loop.depth() + 1;
  }
  std::string type() const override { return "method"; }
  bool is_callable() const override { return true; }
  Value call(Renderer& renderer, const CallArguments& arguments) override {
    Loop& self = *loop.as<Loop>();
    const Values& values = arguments.positional;
    if (!changed) {
      if (values.empty()) throw TemplateError("expected values of loop.cycle, got none");
      return values[static_cast<std::size_t>(self.index0) % values.size()];
    }
    const Value now = renderer.list(values);
    if (!self.last_seen) renderer.keep(loop.object(), 256);
    const bool differs = !self.last_seen || !equal(renderer.list(*self.last_seen), now, renderer.budget());
    self.last_seen = values;
    return Value::boolean(differs);
  }

  Value loop;
  bool changed;
};

std::optional<Value> Loop::attribute(std::string_view name, const Value& self, Budget&) const {
  const auto size = [&] { return static_cast<std::int64_t>(elements.items().size()); };
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "index0") return Value::integer(index0);
  if (name == "revindex") return Value::integer(size() - index0);
  if (name == "revindex0") return Value::integer(size() - index0 - 1);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(at(index0 + 1) == nullptr);
  if (name == "length") return Value::integer(size());
  if (name == "depth") return Value::integer(depth0 + 1);
  if (name == "depth0") return Value::integer(depth0);
  if (name == "cycle" || name == "changed")
    return Value::object(std::make_shared<LoopMethod>(self, name == "changed"));
  if (name == "previtem" || name == "nextitem") {
    const Value* other = at(name == "previtem" ? index0 - 1 : index0 + 1);
    if (other != nullptr) return *other;
    return Value::undefined(name == "previtem" ? "there is no previous item" : "there is no next item");
  }
  return std::nullopt;
}

}  // namespace

void Scope::set(std::string_view name, Value value) {
  for (auto& [known, held] : variables) {
    if (known != name) continue;
    held = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [known, held] : scope->variables) {
      if (known == name) return &held;
    }
  }
  return nullptr;
}

Renderer::Renderer(const std::string& name, const ChatLimits& limits, std::int64_t now)
    : budget_(limits), name_(name), now_(now) {
  auto globals = std::make_shared<Scope>(nullptr);
  globals->variables = global_functions();
  variables_ = std::make_shared<Scope>(std::move(globals));
}

// A scope that a macro captured, and those around it, may hold the macro; objects may be linked in chains of
// any length, which would take as much stack to free. So all are emptied while all are held.
Renderer::~Renderer() {
  for (const auto& object : kept_) object->release();
  captured_scopes_.push_back(variables_);
  for (const auto& captured : captured_scopes_) {
    for (Scope* scope = captured.get(); scope != nullptr && !scope->released; scope = scope->parent.get()) {
      scope->released = true;
      scope->variables.clear();
    }
  }
}

MarkedText Renderer::run(const std::vector<Statement>& body) {
  MarkedText out;
  try {
    captured(body, variables_, out);
  } catch (const TemplateError& error) {
    fail(name_, line_, error.what());
  }
  return out;
}

void Renderer::keep(std::shared_ptr<Object> object, std::size_t bytes) {
  charges_.push_back(std::make_unique<BudgetCharge>(&budget_, bytes));
  kept_.push_back(std::move(object));
}

void Renderer::emit(const MarkedText& text) {
  budget_.scan(text.size());
  out_->charge.add(text.size() + sizeof(TextSpan));
  out_->text.append(text);
}

RecursionGuard::RecursionGuard(Renderer& renderer) : renderer_(renderer) {
  if (renderer_.depth_ >= kMaxRunDepth)
    throw TemplateError("expected less recursion of macros and loops, got too much");
  ++renderer_.depth_;
}

Renderer::Flow Renderer::captured(const std::vector<Statement>& body, const std::shared_ptr<Scope>& scope,
                                  MarkedText& out) {
  Buffer buffer(&budget_);
  Buffer* outer_out = std::exchange(out_, &buffer);
  std::shared_ptr<Scope> outer = std::exchange(scope_, scope);
  const Flow flow = execute(body);
  scope_ = std::move(outer);
  out_ = outer_out;
  out = std::move(buffer.text);
  return flow;
}

Renderer::Flow Renderer::execute(const std::vector<Statement>& body) {
  const RecursionGuard guard(*this);
  Frame frame{body, 0, frame_};
  frame_ = &frame;
  const Flow flow = execute_rest(frame);
  frame_ = frame.outer;
  return flow;
}

Renderer::Flow Renderer::execute_rest(Frame& frame) {
  Flow flow = Flow::normal;
  while (flow == Flow::normal && frame.next < frame.body.size()) flow = execute(frame.body[frame.next++]);
  return flow;
}

Renderer::Flow Renderer::execute(const Statement& statement) {
  budget_.step();
  line_ = statement.line;
  MarkedText text;
  Flow flow = Flow::normal;
  switch (statement.kind) {
    case Statement::Kind::text: emit(statement.value.value.text()); break;
    case Statement::Kind::output: emit(shown(evaluate(statement.value), budget_)); break;
    case Statement::Kind::choose: return choose(statement);
    case Statement::Kind::loop: {
      const Value over = evaluate(statement.value);
      return loop(statement, over, scope_, 0);
    }
    case Statement::Kind::assign: assign(statement.target, evaluate(statement.value)); break;
    case Statement::Kind::assign_body:
      flow = captured(statement.body, std::make_shared<Scope>(scope_), text);
      if (flow == Flow::normal) assign(statement.target, filtered(std::move(text), statement.filters));
      break;
    case Statement::Kind::filter:
      flow = captured(statement.body, std::make_shared<Scope>(scope_), text);
      if (flow == Flow::normal) emit(shown(filtered(std::move(text), statement.filters), budget_));
      break;
    case Statement::Kind::with: return with(statement);
    case Statement::Kind::macro: make_macro(statement); break;
    case Statement::Kind::call: call_block(statement); break;
    case Statement::Kind::generation:
      captured(statement.body, std::make_shared<Scope>(scope_), text);
      text.mark(Mark::generated);
      emit(text);
      break;
    case Statement::Kind::stop: return Flow::stop;
    case Statement::Kind::skip: return Flow::skip;
  }
  return flow;
}

Renderer::Flow Renderer::choose(const Statement& statement) {
  for (const Statement::Branch& branch : statement.branches) {
    if (branch.expressions.empty() || truth(evaluate(branch.expressions.front())))
      return execute(branch.body);
  }
  return Flow::normal;
}

Values Renderer::loop_elements(const Statement& statement, const Value& over,
                               const std::shared_ptr<Scope>& scope) {
  Values elements = elements_of(over, budget_);
  if (statement.condition.empty()) return elements;
  Values kept;
  std::shared_ptr<Scope> outer = std::exchange(scope_, nullptr);
  for (Value& element : elements) {
    scope_ = std::make_shared<Scope>(scope);
    assign(statement.target, element);
    if (truth(evaluate(statement.condition.front()))) kept.push_back(std::move(element));
  }
  scope_ = std::move(outer);
  return kept;
}

Renderer::Flow Renderer::loop(const Statement& statement, const Value& over, std::shared_ptr<Scope> scope,
                              int depth) {
  const bool grows = is_loop_over_messages(statement, over);
  const Value elements = grows ? over : list(loop_elements(statement, over, scope));
  const std::shared_ptr<Scope> outer = std::exchange(scope_, scope);
  Flow flow = Flow::normal;
  if (elements.items_so_far().empty()) {
    scope_ = std::make_shared<Scope>(scope);
    flow = execute(statement.otherwise);
  } else {
    const auto state =
        std::make_shared<Loop>(statement, elements, statement.recursive ? scope : nullptr, depth);
    const Value loop_value = Value::object(state);
    const auto iteration = [&] {
      budget_.step();
      scope_ = std::make_shared<Scope>(scope);
      scope_->set("loop", loop_value);
      assign(statement.target, *state->at(state->index0));
      const bool goes_on = execute(statement.body) != Flow::stop;
      if (goes_on) ++state->index0;
      return goes_on;
    };
    do {
      if (grows) render_prefix(elements, state->index0, iteration);
    } while (iteration() && state->at(state->index0) != nullptr);
  }
  scope_ = outer;
  return flow;
}

Value Renderer::call_loop(const Statement& statement, const std::shared_ptr<Scope>& scope, const Value& over,
                          int depth) {
  Buffer buffer(&budget_);
  Buffer* outer = std::exchange(out_, &buffer);
  loop(statement, over, scope, depth);
  out_ = outer;
  return text(std::move(buffer.text));
}

Renderer::Flow Renderer::with(const Statement& statement) {
  const auto inner = std::make_shared<Scope>(scope_);
  for (const Statement::Branch& pair : statement.branches)
    inner->set(pair.expressions[0].name, evaluate(pair.expressions[1]));
  const std::shared_ptr<Scope> outer = std::exchange(scope_, inner);
  const Flow flow = execute(statement.body);
  scope_ = outer;
  return flow;
}

Value Renderer::macro_value(const Statement& statement) {
  charges_.push_back(std::make_unique<BudgetCharge>(&budget_, 512));
  captured_scopes_.push_back(scope_);
  return Value::object(std::make_shared<Macro>(statement, scope_));
}

void Renderer::make_macro(const Statement& statement) { scope_->set(statement.name, macro_value(statement)); }

void Renderer::call_block(const Statement& statement) {
  const Expression& call_made = statement.value;
  const Value callee = evaluate(call_made.parts.front());
  CallArguments given = arguments(*call_made.arguments);
  given.named.emplace_back("caller", macro_value(statement));
  emit(shown(call(callee, given), budget_));
}

Value Renderer::call_macro(const Statement& macro, const std::shared_ptr<Scope>& scope,
                           const CallArguments& arguments) {
  const RecursionGuard guard(*this);
  const auto inner = std::make_shared<Scope>(scope);
  const std::string shown_name = "macro " + macro.name;
  const std::vector<MacroParameter>& parameters = macro.parameters;
  const std::size_t direct = std::min(arguments.positional.size(), parameters.size());
  for (std::size_t i = 0; i < direct; ++i) inner->set(parameters[i].name, arguments.positional[i]);
  if (arguments.positional.size() > direct && !macro.uses_varargs) {
    throw TemplateError("expected at most " + std::to_string(parameters.size()) + " arguments of " +
                        shown_name + ", got " + std::to_string(arguments.positional.size()));
  }
  Dict others;
  Value caller = Value::undefined("no caller is defined");
  for (const auto& [name, value] : arguments.named) {
    const auto known =
        std::find_if(parameters.begin(), parameters.end(),
                     [&name = name](const MacroParameter& parameter) { return parameter.name == name; });
    if (known != parameters.end()) {
      if (known - parameters.begin() < static_cast<std::ptrdiff_t>(direct))
        throw TemplateError("expected " + name + " of " + shown_name + " once, got it twice");
      inner->set(known->name, value);
    } else if (name == "caller" && macro.uses_caller) {
      caller = value;
    } else if (macro.uses_kwargs && name != "caller") {
      others.set(text(name), value);
    } else {
      throw TemplateError("expected an argument that " + shown_name + " has, got " + name);
    }
  }
  if (macro.uses_caller) inner->set("caller", caller);
  if (macro.uses_varargs) {
    inner->set("varargs",
               Value::tuple(Values(arguments.positional.begin() + static_cast<std::ptrdiff_t>(direct),
                                   arguments.positional.end()),
                            &budget_));
  }
  if (macro.uses_kwargs) inner->set("kwargs", Value::dict(std::move(others), &budget_));
  const std::shared_ptr<Scope> outer = std::exchange(scope_, inner);
  for (const MacroParameter& parameter : parameters) {
    const auto is_set = [&](const auto& variable) { return variable.first == parameter.name; };
    if (std::any_of(inner->variables.begin(), inner->variables.end(), is_set)) continue;
    inner->set(parameter.name, parameter.initial.empty()
                                   ? Value::undefined("parameter '" + parameter.name + "' was not provided")
                                   : evaluate(parameter.initial.front()));
  }
  scope_ = outer;
  const int line = line_;
  MarkedText out;
  captured(macro.body, inner, out);
  line_ = line;
  return text(std::move(out));
}

void Renderer::assign(const Expression& target, const Value& value) {
  if (target.kind == Expression::Kind::name) return scope_->set(target.name, value);
  if (target.kind == Expression::Kind::attribute) {
    const Value object = evaluate(target.parts.front());
    Namespace* held = object.as<Namespace>();
    if (held == nullptr)
      throw TemplateError("expected a namespace to assign to an attribute of, got " + type_name(object));
    if (target.name.starts_with("_"))
      throw TemplateError("expected an attribute without \"_\" at its begin, got " + target.name);
    held->attributes.insert_or_assign(target.name, value);
    return;
  }
  require_defined(value);
  const Values elements = elements_of(value, budget_);
  if (elements.size() != target.parts.size()) {
    throw TemplateError("expected " + std::to_string(target.parts.size()) +
                        " values to assign to as many names, got " + std::to_string(elements.size()));
  }
  for (std::size_t i = 0; i < elements.size(); ++i) assign(target.parts[i], elements[i]);
}

Value Renderer::filtered(MarkedText from, const std::vector<Expression>& filters) {
  Value value = text(std::move(from));
  for (const Expression& step : filters) {
    line_ = step.line;
    value = filter(step.name, value, arguments(*step.arguments));
  }
  return value;
}

}  // namespace heed::chat
