// The functions that every template has.
#include <algorithm>
#include <cmath>
#include <ctime>

#include "chat/functions.h"

namespace heed::chat {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // as jinja2's sandbox

struct Function : Object {
  using Run = Value (*)(Renderer&, const CallArguments&);
  explicit Function(Run function) : run(function) {}
  std::string type() const override { return "function"; }
  bool is_callable() const override { return true; }
  Value call(Renderer& renderer, const CallArguments& arguments) override { return run(renderer, arguments); }
  Run run;
};

/// cycler(a, b, ...): its next() gives one after the other.
struct Cycler : Object {
  explicit Cycler(Values all) : values(std::move(all)) {
    for (const Value& value : values) depth = std::max(depth, value.depth() + 1);
  }
  std::string type() const override { return "Cycler"; }
  std::optional<Value> attribute(std::string_view name, const Value& self, Budget&) const override;
  Values values;
  std::size_t at = 0;
};

struct CyclerMethod : Object {
  CyclerMethod(Value of, bool next_one) : cycler(std::move(of)), advances(next_one) {
    depth = cycler.depth() + 1;
  }
  std::string type() const override { return "method"; }
  bool is_callable() const override { return true; }
  Value call(Renderer&, const CallArguments&) override {
    Cycler& self = *cycler.as<Cycler>();
    const std::size_t now = advances ? self.at : 0;
    self.at = advances ? (now + 1) % self.values.size() : 0;
    return advances ? self.values[now] : Value();
  }
  Value cycler;
  bool advances;
};

std::optional<Value> Cycler::attribute(std::string_view name, const Value& self, Budget&) const {
  if (name == "current") return values[at];
  if (name != "next" && name != "reset") return std::nullopt;
  return Value::object(std::make_shared<CyclerMethod>(self, name == "next"));
}

/// joiner(separator): empty at its first call, then the separator.
struct Joiner : Object {
  explicit Joiner(Value text) : separator(std::move(text)) { depth = separator.depth() + 1; }
  std::string type() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  Value call(Renderer& renderer, const CallArguments&) override {
    const bool first = !used;
    used = true;
    return first ? renderer.text(std::string()) : separator;
  }
  Value separator;
  bool used = false;
};

Value range(Renderer& renderer, const CallArguments& arguments) {
  if (arguments.positional.empty()) throw TemplateError("expected one to three integers for range, got none");
  const BoundArguments given(arguments, "range", {"start", "stop", "step"}, 1);
  const bool one = given[1] == nullptr;
  const std::int64_t start = one ? 0 : given.whole(0, 0), stop = given.whole(one ? 0 : 1, 0),
                     step = given.whole(2, 1);
  if (step == 0) throw TemplateError("expected a step of range other than 0, got 0");
  const double size =
      std::ceil((static_cast<double>(stop) - static_cast<double>(start)) / static_cast<double>(step));
  if (size > static_cast<double>(kMaxRange))
    throw TemplateError("expected a range of at most 100000 numbers, got more");
  Values numbers;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(size); ++i)
    numbers.push_back(Value::integer(start + i * step));
  renderer.budget().step(numbers.size());
  std::string shown = "range(" + std::to_string(start) + ", " + std::to_string(stop);
  if (step != 1) shown += ", " + std::to_string(step);
  return Value::object(std::make_shared<View>("range", std::move(numbers), renderer.budget(), shown + ")"));
}

/// The entries that dict() and namespace() are given: those of a dict or of pairs, then those with names.
Dict entries_of(Renderer& renderer, const CallArguments& arguments, std::string_view callee) {
  Dict entries;
  const auto add = [&](const Value& key, const Value& value) {
    renderer.budget().scan(key.is_text() ? key.text().size() : 0);
    entries.set(key, value);
  };
  if (arguments.positional.size() > 1)
    throw TemplateError("expected one argument of " + std::string(callee) + " without a name, got more");
  if (!arguments.positional.empty()) {
    const Value& given = arguments.positional.front();
    if (given.is_dict()) {
      for (const auto& [key, value] : given.dict().entries) add(key, value);
    } else {
      require_defined(given);
      for (const Value& pair : elements_of(given, renderer.budget())) {
        const Values parts = elements_of(pair, renderer.budget());
        if (parts.size() != 2)
          throw TemplateError("expected pairs of keys and values, got " + std::to_string(parts.size()) +
                              " values");
        add(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) entries.set(renderer.text(name), value);
  return entries;
}

Value make_dict(Renderer& renderer, const CallArguments& arguments) {
  return Value::dict(entries_of(renderer, arguments, "dict"), &renderer.budget());
}

Value make_namespace(Renderer& renderer, const CallArguments& arguments) {
  auto made = std::make_shared<Namespace>();
  for (const auto& [key, value] : entries_of(renderer, arguments, "namespace").entries) {
    if (!key.is_text()) throw TemplateError("expected names of attributes, got " + type_name(key));
    if (key.bytes().starts_with("_"))
      throw TemplateError("expected an attribute without \"_\" at its begin, got " + key.bytes());
    made->attributes.insert_or_assign(key.bytes(), value);
  }
  renderer.keep(made, 256 + 256 * made->attributes.size());
  return Value::object(std::move(made));
}

/// Makes a value of what changes when it is called.
template <class Type>
Value changing(Renderer& renderer, std::shared_ptr<Type> object) {
  renderer.keep(object, 0);
  return Value::object(std::move(object));
}

Value make_cycler(Renderer& renderer, const CallArguments& arguments) {
  if (arguments.positional.empty()) throw TemplateError("expected values for cycler, got none");
  return changing(renderer, std::make_shared<Cycler>(arguments.positional));
}

Value make_joiner(Renderer& renderer, const CallArguments& arguments) {
  const BoundArguments given(arguments, "joiner", {"sep"});
  return changing(renderer, std::make_shared<Joiner>(given[0] == nullptr ? renderer.text(", ") : *given[0]));
}

Value raise_exception(Renderer& renderer, const CallArguments& arguments) {
  const BoundArguments given(arguments, "raise_exception", {"message"}, 1);
  throw TemplateError(given.text(0, "", renderer.budget()).bytes());
}

Value strftime_now(Renderer& renderer, const CallArguments& arguments) {
  const BoundArguments given(arguments, "strftime_now", {"format"}, 1);
  const MarkedText format = given.text(0, "", renderer.budget());
  const auto seconds = static_cast<std::time_t>(renderer.now());
  std::tm local{};
  if (localtime_r(&seconds, &local) == nullptr)
    throw TemplateError("expected a time that has a year, got another");
  if (format.empty()) return renderer.text(std::string());
  char buffer[1024];
  if (format.size() > 256 || format.bytes().find('\0') != std::string::npos)
    throw TemplateError("expected a format of a time of at most 256 bytes, got another");
  // With one more letter, so that a format of nothing is told from one that does not fit.
  const std::size_t size = std::strftime(buffer, sizeof buffer, (format.bytes() + ".").c_str(), &local);
  if (size == 0) throw TemplateError("expected a format of a time of at most 1 KiB, got a longer one");
  return renderer.text(format.derived(std::string(buffer, size - 1)));
}

}  // namespace

std::vector<std::pair<std::string_view, Value>> global_functions() {
  const std::pair<std::string_view, Function::Run> functions[] = {{"range", range},
                                                                  {"dict", make_dict},
                                                                  {"namespace", make_namespace},
                                                                  {"cycler", make_cycler},
                                                                  {"joiner", make_joiner},
                                                                  {"raise_exception", raise_exception},
                                                                  {"strftime_now", strftime_now}};
  std::vector<std::pair<std::string_view, Value>> result;
  for (const auto& [name, function] : functions)
    result.emplace_back(name, Value::object(std::make_shared<Function>(function)));
  return result;
}

}  // namespace heed::chat
