// Value: what expressions of templates give, as Python has it: None, bool, int (of 64 bits), float, str,
// list, tuple, dict, jinja2's Undefined, and objects such as namespaces and macros. Text and containers never
// change, so that copies share them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "chat/budget.h"
#include "chat/marked_text.h"

namespace heed::chat {

class Renderer;
class Value;
struct CallArguments;
using Values = std::vector<Value>;

/// Everything that is neither text, number nor container.
struct Object {
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  /// The name of its type, as Python's messages have it.
  virtual std::string type() const = 0;
  virtual bool is_callable() const { return false; }
  /// Throws TemplateError if this cannot be called.
  virtual Value call(Renderer& renderer, const CallArguments& arguments);
  /// Returns nullopt if it has none of this name. `self` is the value that holds this.
  virtual std::optional<Value> attribute(std::string_view name, const Value& self, Budget& budget) const;
  /// Lets go of what was put into this after it was made, which may hold this.
  virtual void release() {}
  int depth = 0;  // how many containers and objects its parts hold one within another
};

struct Dict;
struct SequenceValue;

/// Thrown where more is read of a list that grows than its elements so far (rendered_prefixes.h).
struct OpenListRead {};

class Value {
 public:
  Value() = default;  ///< None
  static Value boolean(bool value);
  static Value integer(std::int64_t value);
  static Value real(double value);
  static Value text(MarkedText value, Budget* budget);
  static Value text(std::string value, Budget* budget) { return text(MarkedText(std::move(value)), budget); }
  /// Throws TemplateError if containers are nested too deep.
  static Value list(Values values, Budget* budget);
  static Value list(std::shared_ptr<const SequenceValue> elements);
  static Value tuple(Values values, Budget* budget);
  /// A pair that groupby made: a tuple whose parts have the names `grouper` and `list`.
  static Value group(Values values, Budget* budget);
  static Value dict(Dict value, Budget* budget);
  /// Throws TemplateError if what it holds is nested too deep.
  static Value object(std::shared_ptr<Object> value);
  /// `message` says what is undefined.
  static Value undefined(std::string message);

  bool is_none() const { return std::holds_alternative<std::monostate>(held_); }
  bool is_boolean() const { return std::holds_alternative<bool>(held_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(held_); }
  bool is_real() const { return std::holds_alternative<double>(held_); }
  /// int, or bool, which Python takes for one.
  bool is_whole() const { return is_integer() || is_boolean(); }
  bool is_number() const { return is_whole() || is_real(); }
  bool is_text() const { return std::holds_alternative<std::shared_ptr<const Text>>(held_); }
  bool is_list() const;
  bool is_tuple() const;
  bool is_sequence() const { return std::holds_alternative<std::shared_ptr<const SequenceValue>>(held_); }
  bool is_dict() const { return std::holds_alternative<std::shared_ptr<const Dict>>(held_); }
  bool is_undefined() const { return std::holds_alternative<std::shared_ptr<const Undefined>>(held_); }

  bool boolean() const { return std::get<bool>(held_); }
  std::int64_t whole() const { return is_boolean() ? (boolean() ? 1 : 0) : std::get<std::int64_t>(held_); }
  double number() const { return is_real() ? std::get<double>(held_) : static_cast<double>(whole()); }
  const MarkedText& text() const { return std::get<std::shared_ptr<const Text>>(held_)->text; }
  const std::string& bytes() const { return text().bytes(); }
  /// The elements of a list or tuple. Throws OpenListRead for a list that grows.
  const Values& items() const;
  /// The same, or of a list that grows its elements so far.
  const Values& items_so_far() const;
  const SequenceValue& sequence() const { return *std::get<std::shared_ptr<const SequenceValue>>(held_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(held_); }
  const std::string& undefined() const { return std::get<std::shared_ptr<const Undefined>>(held_)->message; }
  /// The object if it is one of this type, or null.
  template <class Type>
  Type* as() const {
    const auto* object = std::get_if<std::shared_ptr<Object>>(&held_);
    return object == nullptr ? nullptr : dynamic_cast<Type*>(object->get());
  }
  const std::shared_ptr<Object>& object() const { return std::get<std::shared_ptr<Object>>(held_); }
  /// Whether both are the same object, as Python's `is` tells.
  bool same_as(const Value& other) const;
  int depth() const;

 private:
  struct Text {
    Text(MarkedText from, Budget* budget);
    MarkedText text;
    BudgetCharge charge;
  };
  struct Undefined {
    std::string message;
  };
  std::variant<std::monostate, bool, std::int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const SequenceValue>, std::shared_ptr<const Dict>, std::shared_ptr<Object>,
               std::shared_ptr<const Undefined>>
      held_;
};

/// A list or tuple.
struct SequenceValue {
  SequenceValue(Values values, bool is_tuple, Budget* budget);
  Values values;
  bool tuple;
  bool group = false;
  bool grows = false;
  std::size_t first = 0;  // of a list that grows: the place of its first element among all messages
  int depth;
  BudgetCharge charge;
};

/// Entries in the order of insertion.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;

  /// Adds an entry or replaces its value. Throws TemplateError if the key is not hashable.
  void set(Value key, Value value);
  /// Returns a value, or null. Throws TemplateError if the key is not hashable.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;

  int depth = 0;
  std::shared_ptr<BudgetCharge> charge;

 private:
  std::map<std::string, std::size_t, std::less<>> places_;  // by hash_key()
};

/// A result of map, select and others: it can be read once.
struct Iterator : Object {
  Iterator(Values values, Budget& budget);
  ~Iterator() override { --budget.iterators; }
  std::string type() const override { return "generator"; }
  /// Returns what has not been read, and leaves nothing.
  Values rest();
  Values values;
  std::size_t next = 0;
  Budget& budget;
  BudgetCharge charge;
};

/// A range, or what dict.items(), keys() and values() give.
struct View : Object {
  View(std::string name, Values elements, Budget& budget, std::string range_shown = {});
  std::string type() const override { return name; }
  std::string name;
  Values values;
  std::string shown;  // a range as it prints
  BudgetCharge charge;
};

struct Namespace : Object {
  std::string type() const override { return "Namespace"; }
  std::optional<Value> attribute(std::string_view name, const Value& self, Budget& budget) const override;
  void release() override { attributes.clear(); }
  std::map<std::string, Value, std::less<>> attributes;
};

/// What a call is given.
struct CallArguments {
  Values positional = {};
  std::vector<std::pair<std::string, Value>> named = {};
};

/// A string that two values have in common if they are equal as keys of a dict. Throws TemplateError for
/// lists and dicts.
std::string hash_key(const Value& value);
std::string type_name(const Value& value);

bool truth(const Value& value);
/// What Python's str() and repr() give.
MarkedText shown(const Value& value, Budget& budget);
void append_repr(MarkedText& out, const Value& value, Budget& budget);
std::string real_repr(double value);

bool equal(const Value& a, const Value& b, Budget& budget);
/// a < b. Throws TemplateError for values without an order.
bool less(const Value& a, const Value& b, Budget& budget);

/// Returns the elements of what can be iterated: characters of text, keys of a dict. Throws TemplateError
/// otherwise.
Values elements_of(const Value& value, Budget& budget);
/// Returns Python's len(), or throws TemplateError.
std::int64_t length_of(const Value& value, Budget& budget);
/// Whether `part` is in `whole`, as Python's `in` tells.
bool contains(const Value& whole, const Value& part, Budget& budget);

/// Throws TemplateError if a value is undefined, as jinja2 does where one is used.
void require_defined(const Value& value);

}  // namespace heed::chat
