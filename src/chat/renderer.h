// Renderer: runs the syntax tree of a template; and render(), of a parsed template with variables that are
// JSON already.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/syntax.h"
#include "chat/value.h"
#include "core/json.h"
#include "heed/chat/chat_template.h"

namespace heed::chat {

/// Variables by name; those of the parent are visible too. Names outlive it.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> parent_scope) : parent(std::move(parent_scope)) {}
  void set(std::string_view name, Value value);
  const Value* find(std::string_view name) const;

  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string_view, Value>> variables;
  bool released = false;  // at the end
};

class GrowingMessages;
struct RenderedPrefixes;

class Renderer {
 public:
  /// `name` begins messages; `now` is in seconds since 1970.
  Renderer(const std::string& name, const ChatLimits& limits, std::int64_t now);
  ~Renderer();

  /// Adds a variable. Throws Error if rendering it would break a limit.
  void set(std::string_view name, Value value) { variables_->set(name, std::move(value)); }
  /// Runs a template. Throws Error that names template and line.
  MarkedText run(const std::vector<Statement>& body);
  /// Runs a template over the first messages, as render_prefixes() says.
  RenderedPrefixes run_prefixes(const std::vector<Statement>& body, const std::vector<std::size_t>& counts);

  Budget& budget() { return budget_; }
  std::int64_t now() const { return now_; }
  Value text(MarkedText text) { return Value::text(std::move(text), &budget_); }
  Value text(std::string text) { return Value::text(std::move(text), &budget_); }
  Value list(Values values) { return Value::list(std::move(values), &budget_); }
  /// Keeps what may come to hold itself, such as a namespace, until the end, where it is released; charges
  /// `bytes` for it.
  void keep(std::shared_ptr<Object> object, std::size_t bytes);

  /// What functions, methods and filters do to one another. All throw TemplateError.
  Value filter(std::string_view name, const Value& input, const CallArguments& arguments);
  bool test(std::string_view name, const Value& input, const CallArguments& arguments);
  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object, const Value& key);
  Value call(const Value& callee, const CallArguments& arguments);
  Value call_macro(const Statement& macro, const std::shared_ptr<Scope>& scope,
                   const CallArguments& arguments);
  /// Runs a loop over other elements, as `loop(...)` does.
  Value call_loop(const Statement& loop, const std::shared_ptr<Scope>& scope, const Value& over, int depth);

 private:
  friend class RecursionGuard;
  enum class Flow { normal, stop, skip };
  struct Buffer {
    explicit Buffer(Budget* budget) : charge(budget, 0) {}
    MarkedText text;
    BudgetCharge charge;
  };

  /// A body that runs, and its next statement.
  struct Frame {
    const std::vector<Statement>& body;
    std::size_t next;
    Frame* outer;
  };

  Flow execute(const std::vector<Statement>& body);
  Flow execute_rest(Frame& frame);
  Flow execute(const Statement& statement);
  Flow choose(const Statement& statement);
  Flow loop(const Statement& statement, const Value& over, std::shared_ptr<Scope> scope, int depth);
  /// Whether render_prefix() can end this loop: what encloses it is at most `if`, and all that can change is
  /// known.
  bool is_loop_over_messages(const Statement& statement, const Value& over) const;
  /// Makes the element of the next iteration known. If that completes a wanted text, renders it: runs
  /// `iteration` and what follows the loop, and takes back what they changed, `index` included.
  void render_prefix(const Value& elements, std::int64_t& index, const std::function<bool()>& iteration);
  Values loop_elements(const Statement& statement, const Value& over, const std::shared_ptr<Scope>& scope);
  Flow with(const Statement& statement);
  void make_macro(const Statement& statement);
  void call_block(const Statement& statement);
  void generation(const Statement& statement);
  void assign(const Expression& target, const Value& value);
  void emit(const MarkedText& text);
  Value macro_value(const Statement& statement);
  /// Runs a body in a scope of its own, and returns what it prints.
  Flow captured(const std::vector<Statement>& body, const std::shared_ptr<Scope>& scope, MarkedText& out);
  Value filtered(MarkedText text, const std::vector<Expression>& filters);

  Value evaluate(const Expression& expression);
  Value evaluate_parts(const Expression& expression);
  Value lookup(const std::string& name) const;
  Value compare(const Expression& expression);
  Value sliced(const Value& object, const Expression& slice);
  Value choice(const Expression& expression);
  Value dict(const Expression& expression);
  Value concatenated(const Expression& expression);
  CallArguments arguments(const Expression::Arguments& arguments);
  Value missing(const Value& object, const Value& key);

  // Values are charged to the budget until they are destroyed.
  Budget budget_;
  const std::string& name_;
  std::int64_t now_;
  int line_ = 1;
  int depth_ = 0;
  std::shared_ptr<Scope> variables_;
  std::shared_ptr<Scope> scope_;
  Buffer* out_ = nullptr;
  Frame* frame_ = nullptr;
  GrowingMessages* messages_ = nullptr;  // of run_prefixes(), as these
  RenderedPrefixes* prefixes_ = nullptr;
  Buffer* shared_ = nullptr;
  // What can hold itself: it is released in the end.
  std::vector<std::shared_ptr<Object>> kept_;
  std::vector<std::shared_ptr<Scope>> captured_scopes_;
  std::vector<std::unique_ptr<BudgetCharge>> charges_;
};

/// A level of running. Throws TemplateError if there are too many.
class RecursionGuard {
 public:
  explicit RecursionGuard(Renderer& renderer);
  ~RecursionGuard() { --renderer_.depth_; }
  RecursionGuard(const RecursionGuard&) = delete;
  RecursionGuard& operator=(const RecursionGuard&) = delete;

 private:
  Renderer& renderer_;
};

struct ParsedTemplate {
  std::string name;
  std::vector<Statement> body;
};

/// ChatTemplate::render(), with `constants` in place of those of the options.
RenderedChat render(const ParsedTemplate& parsed, const Json& variables, const Json& constants,
                    const RenderOptions& options);

}  // namespace heed::chat
