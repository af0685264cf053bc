// Methods of dicts and lists that leave them as they are; those that change them are refused.
#include <algorithm>
#include <cmath>
#include <utility>

#include "chat/functions.h"

namespace heed::chat {
namespace {

constexpr std::string_view kDictMethods[] = {"items", "keys", "values", "get", "copy"};
constexpr std::string_view kListMethods[] = {"index", "count", "copy"};
constexpr std::string_view kRefused[] = {"append", "extend", "insert",  "pop",        "remove", "reverse",
                                         "sort",   "clear",  "popitem", "setdefault", "update"};

template <std::size_t count>
bool is_one_of(std::string_view name, const std::string_view (&names)[count]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Value dict_method(Renderer& renderer, const Value& self, std::string_view name,
                  const CallArguments& arguments) {
  const Dict& dict = self.dict();
  if (name == "get") {
    const BoundArguments given(arguments, name, {"key", "default"}, 1);
    if (given[0]->is_text()) renderer.budget().scan(given[0]->text().size());
    if (const Value* found = dict.find(*given[0])) return *found;
    return given[1] == nullptr ? Value() : *given[1];
  }
  const BoundArguments none(arguments, name, {});
  if (name == "copy") return self;
  Values parts;
  for (const auto& [key, value] : dict.entries) {
    parts.push_back(name == "keys"     ? key
                    : name == "values" ? value
                                       : Value::tuple({key, value}, &renderer.budget()));
  }
  renderer.budget().step(parts.size());
  return Value::object(
      std::make_shared<View>("dict_" + std::string(name), std::move(parts), renderer.budget()));
}

Value list_method(Renderer& renderer, const Value& self, std::string_view name,
                  const CallArguments& arguments) {
  if (name == "copy") return self;
  const BoundArguments given(arguments, name, {"value"}, 1);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < self.items().size(); ++i) {
    if (!equal(self.items()[i], *given[0], renderer.budget())) continue;
    if (name == "index") return Value::integer(static_cast<std::int64_t>(i));
    ++count;
  }
  if (name == "index")
    throw TemplateError("expected a value that the list has as the argument of index, got another");
  return Value::integer(count);
}

struct Method : Object {
  Method(Value of, std::string_view method_name) : self(std::move(of)), name(method_name) {
    depth = self.depth() + 1;
  }
  std::string type() const override { return "method " + name; }
  bool is_callable() const override { return true; }
  Value call(Renderer& renderer, const CallArguments& arguments) override {
    if (self.is_text()) return call_text_method(renderer, self, name, arguments);
    if (self.is_dict()) return dict_method(renderer, self, name, arguments);
    if (self.is_sequence()) return list_method(renderer, self, name, arguments);
    const BoundArguments none(arguments, name, {});
    return Value::boolean(self.number() == std::floor(self.number()));
  }

  Value self;
  std::string name;
};

}  // namespace

std::optional<Value> method_of(const Value& value, std::string_view name) {
  const bool is_mutable = value.is_dict() || value.is_list();
  if (is_mutable && is_one_of(name, kRefused))
    return Value::undefined("expected a method that leaves its value as it is, got " + std::string(name) +
                            " of " + type_name(value));
  const bool known = value.is_text()       ? is_text_method(name)
                     : value.is_dict()     ? is_one_of(name, kDictMethods)
                     : value.is_sequence() ? is_one_of(name, kListMethods)
                                           : value.is_real() && name == "is_integer";
  if (!known && value.is_sequence() && value.sequence().group && (name == "grouper" || name == "list"))
    return value.items()[name == "grouper" ? 0 : 1];
  if (!known) return std::nullopt;
  return Value::object(std::make_shared<Method>(value, name));
}

}  // namespace heed::chat
