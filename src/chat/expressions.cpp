// Values of expressions, and calls with their arguments.
#include <algorithm>
#include <utility>

#include "chat/functions.h"
#include "chat/rendered_prefixes.h"
#include "chat/renderer.h"

namespace heed::chat {
namespace {

/// The place of an element by an index that may count from the end; nullopt if there is none.
std::optional<std::size_t> place_of(std::int64_t index, std::int64_t size) {
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return static_cast<std::size_t>(index);
}

/// The places that Python's slice(start, stop, step) has in a sequence.
std::vector<std::size_t> slice_places(const Value parts[3], std::int64_t size) {
  const auto whole = [](const Value& value, std::int64_t otherwise) {
    if (value.is_none()) return otherwise;
    require_defined(value);
    if (!value.is_whole()) throw TemplateError("expected integers in a slice, got " + type_name(value));
    return value.whole();
  };
  const std::int64_t step = whole(parts[2], 1);
  if (step == 0) throw TemplateError("expected a step other than 0 in a slice, got 0");
  const std::int64_t least = step < 0 ? -1 : 0, most = step < 0 ? size - 1 : size;
  const auto bound = [&](const Value& value, std::int64_t otherwise) {
    std::int64_t place = whole(value, otherwise);
    if (value.is_none()) return place;
    if (place < 0) place += size;
    return std::clamp(place, least, std::max(least, most));
  };
  const std::int64_t start = bound(parts[0], step < 0 ? most : least),
                     stop = bound(parts[1], step < 0 ? least : most);
  std::vector<std::size_t> places;
  std::int64_t at = start;
  while (step < 0 ? at > stop : at < stop) {
    places.push_back(static_cast<std::size_t>(at));
    // A step past the end of the sequence could leave the range of integers.
    const std::int64_t left = step < 0 ? at - stop : stop - at;
    if (step == INT64_MIN || (step < 0 ? -step : step) >= left) break;
    at += step;
  }
  return places;
}

}  // namespace

Value Renderer::lookup(const std::string& name) const {
  if (const Value* found = scope_->find(name)) return *found;
  return Value::undefined("expected a variable " + name + ", got none of that name");
}

Value Renderer::evaluate(const Expression& expression) {
  const RecursionGuard guard(*this);
  budget_.step();
  line_ = expression.line;
  switch (expression.kind) {
    case Expression::Kind::constant: return expression.value;
    case Expression::Kind::name: return lookup(expression.name);
    case Expression::Kind::attribute: return attribute(evaluate(expression.parts[0]), expression.name);
    case Expression::Kind::choice: return choice(expression);
    case Expression::Kind::dict: return dict(expression);
    case Expression::Kind::comparison: return compare(expression);
    case Expression::Kind::concatenation: return concatenated(expression);
    case Expression::Kind::negation: return Value::boolean(!truth(evaluate(expression.parts[0])));
    case Expression::Kind::conjunction: {
      Value left = evaluate(expression.parts[0]);
      return truth(left) ? evaluate(expression.parts[1]) : left;
    }
    case Expression::Kind::disjunction: {
      Value left = evaluate(expression.parts[0]);
      return truth(left) ? left : evaluate(expression.parts[1]);
    }
    default: return evaluate_parts(expression);
  }
}

// Apart from evaluate(), so that the variables here take no stack while a long chain of names and conditions
// is evaluated.
Value Renderer::evaluate_parts(const Expression& expression) {
  const std::vector<Expression>& parts = expression.parts;
  switch (expression.kind) {
    case Expression::Kind::list:
    case Expression::Kind::tuple: {
      Values values;
      for (const Expression& part : parts) values.push_back(evaluate(part));
      return expression.kind == Expression::Kind::list ? list(std::move(values))
                                                       : Value::tuple(std::move(values), &budget_);
    }
    case Expression::Kind::item: {
      const Value object = evaluate(parts[0]);
      if (parts[1].kind == Expression::Kind::slice) return sliced(object, parts[1]);
      return item(object, evaluate(parts[1]));
    }
    case Expression::Kind::call: {
      const Value callee = evaluate(parts[0]);
      const CallArguments given = arguments(*expression.arguments);
      line_ = expression.line;
      return call(callee, given);
    }
    case Expression::Kind::filter: {
      const Value input = evaluate(parts[0]);
      const CallArguments given = arguments(*expression.arguments);
      line_ = expression.line;
      return filter(expression.name, input, given);
    }
    case Expression::Kind::test: {
      const Value input = evaluate(parts[0]);
      return Value::boolean(test(expression.name, input, arguments(*expression.arguments)));
    }
    case Expression::Kind::minus:
    case Expression::Kind::plus: {
      const Value input = evaluate(parts[0]);
      require_defined(input);
      if (!input.is_number()) throw TemplateError("expected a number after a sign, got " + type_name(input));
      const bool minus = expression.kind == Expression::Kind::minus;
      if (input.is_real()) return minus ? Value::real(-input.number()) : input;
      return arithmetic(*this, minus ? "-" : "+", Value::integer(0), input);
    }
    case Expression::Kind::arithmetic: {
      const Value left = evaluate(parts[0]);
      const Value right = evaluate(parts[1]);
      line_ = expression.line;
      return arithmetic(*this, expression.name, left, right);
    }
    default: throw TemplateError("expected a value, got a slice");
  }
}

Value Renderer::choice(const Expression& expression) {
  if (truth(evaluate(expression.parts[1]))) return evaluate(expression.parts[0]);
  if (expression.parts.size() > 2) return evaluate(expression.parts[2]);
  return Value::undefined("expected an inline if with an else where its condition is false, got one without");
}

Value Renderer::dict(const Expression& expression) {
  Dict entries;
  for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
    Value key = evaluate(expression.parts[i]);
    if (key.is_text()) budget_.scan(key.text().size());
    entries.set(std::move(key), evaluate(expression.parts[i + 1]));
  }
  return Value::dict(std::move(entries), &budget_);
}

Value Renderer::concatenated(const Expression& expression) {
  MarkedText joined;
  for (const Expression& part : expression.parts) {
    const MarkedText piece = shown(evaluate(part), budget_);
    budget_.check(joined.size() + piece.size());
    joined.append(piece);
  }
  return text(std::move(joined));
}

Value Renderer::compare(const Expression& expression) {
  Value left = evaluate(expression.parts[0]);
  for (std::size_t i = 0; i < expression.names.size(); ++i) {
    const std::string& name = expression.names[i];
    Value right = evaluate(expression.parts[i + 1]);
    bool holds = false;
    if (name == "==" || name == "!=") {
      holds = equal(left, right, budget_) == (name == "==");
    } else if (name == "in" || name == "not in") {
      holds = contains(right, left, budget_) == (name == "in");
    } else if (name == "<" || name == ">") {
      holds = name == "<" ? less(left, right, budget_) : less(right, left, budget_);
    } else {
      const bool smaller = name == "<=" ? less(left, right, budget_) : less(right, left, budget_);
      holds = smaller || equal(left, right, budget_);
    }
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

CallArguments Renderer::arguments(const Expression::Arguments& given) {
  CallArguments result;
  for (const Expression& part : given.positional) result.positional.push_back(evaluate(part));
  for (const auto& [name, part] : given.named) result.named.emplace_back(name, evaluate(part));
  for (const Expression& part : given.spread) {
    const Value values = evaluate(part);
    require_defined(values);
    for (Value& value : elements_of(values, budget_)) result.positional.push_back(std::move(value));
  }
  for (const Expression& part : given.spread_named) {
    const Value values = evaluate(part);
    if (!values.is_dict()) throw TemplateError("expected a dict after **, got " + type_name(values));
    for (const auto& [key, value] : values.dict().entries) {
      if (!key.is_text())
        throw TemplateError("expected strings as keys of the dict after **, got " + type_name(key));
      result.named.emplace_back(key.bytes(), value);
    }
  }
  return result;
}

Value Renderer::filter(std::string_view name, const Value& input, const CallArguments& given) {
  const RecursionGuard guard(*this);  // map runs another filter, which may be map
  for (const Filters* filters : {&text_filters(), &sequence_filters()}) {
    if (const auto found = filters->find(name); found != filters->end())
      return found->second(*this, input, given);
  }
  throw TemplateError("expected a filter that exists, got " + std::string(name));
}

bool Renderer::test(std::string_view name, const Value& input, const CallArguments& given) {
  const auto found = value_tests().find(name);
  if (found == value_tests().end())
    throw TemplateError("expected a test that exists, got " + std::string(name));
  return found->second(*this, input, given);
}

Value Renderer::call(const Value& callee, const CallArguments& given) {
  require_defined(callee);
  budget_.step();
  Object* object = callee.as<Object>();
  if (object == nullptr)
    throw TemplateError("expected a macro, function or method to call, got " + type_name(callee));
  return object->call(*this, given);
}

Value Renderer::missing(const Value& object, const Value& key) {
  const MarkedText name = shown(key, budget_);
  return Value::undefined("expected an attribute or element that exists, got \"" +
                          name.bytes().substr(0, 200) + "\" of " + type_name(object));
}

Value Renderer::attribute(const Value& object, std::string_view name) {
  require_defined(object);
  if (name.starts_with("__")) {
    return Value::undefined("expected an attribute that templates may read, got " + std::string(name));
  }
  if (const Object* held = object.as<Object>()) {
    if (const auto found = held->attribute(name, object, budget_)) return *found;
  }
  if (const auto method = method_of(object, name)) return *method;
  if (object.is_dict()) {
    if (const Value* found = object.dict().find(name)) return *found;
  }
  return missing(object, text(std::string(name)));
}

Value Renderer::item(const Value& object, const Value& key) {
  require_defined(object);
  if (key.is_text()) budget_.scan(key.text().size());
  if (object.is_dict() && !key.is_list() && !key.is_dict()) {
    if (const Value* found = object.dict().find(key)) return *found;
  }
  if (key.is_whole()) {
    const View* view = object.as<View>();
    if (object.is_text()) {
      const auto place = place_of(key.whole(), length_of(object, budget_));
      if (!place) return missing(object, key);
      budget_.scan(object.text().size());
      const std::string& bytes = object.bytes();
      const std::size_t begin = character_start(bytes, *place);
      return text(
          object.text().part(begin, begin + character_start(std::string_view(bytes).substr(begin), 1)));
    }
    if (object.is_sequence() && key.whole() >= 0 &&
        static_cast<std::size_t>(key.whole()) < object.items_so_far().size())
      return object.items_so_far()[static_cast<std::size_t>(key.whole())];
    if (object.is_sequence() || (view != nullptr && view->name == "range")) {
      const Values& items = view == nullptr ? object.items() : view->values;
      const auto place = place_of(key.whole(), static_cast<std::int64_t>(items.size()));
      if (place) return items[*place];
    }
  }
  if (key.is_text() && !object.is_dict()) return attribute(object, key.bytes());
  if (key.is_text()) {
    if (const auto method = method_of(object, key.bytes())) return *method;
  }
  return missing(object, key);
}

Value Renderer::sliced(const Value& object, const Expression& slice) {
  require_defined(object);
  const Value parts[3] = {evaluate(slice.parts[0]), evaluate(slice.parts[1]), evaluate(slice.parts[2])};
  const View* view = object.as<View>();
  if (object.is_text()) {
    const MarkedText& whole = object.text();
    const std::vector<std::string_view> characters = characters_of(whole.bytes());
    budget_.step(characters.size());
    MarkedText result;
    for (const std::size_t place : slice_places(parts, static_cast<std::int64_t>(characters.size()))) {
      const auto begin = static_cast<std::size_t>(characters[place].data() - whole.bytes().data());
      result.append(whole, begin, begin + characters[place].size());
    }
    return text(std::move(result));
  }
  const bool is_range = view != nullptr && view->name == "range";
  if (!object.is_sequence() && !is_range)
    throw TemplateError("expected a list or string to slice, got " + type_name(object));
  if (messages_ != nullptr && object.is_sequence() && object.sequence().grows && parts[0].is_whole() &&
      parts[0].whole() >= 0 && parts[1].is_none() && parts[2].is_none())
    return messages_->from(object, static_cast<std::size_t>(parts[0].whole()));
  const Values& items = is_range ? view->values : object.items();
  Values chosen;
  for (const std::size_t place : slice_places(parts, static_cast<std::int64_t>(items.size())))
    chosen.push_back(items[place]);
  return object.is_tuple() ? Value::tuple(std::move(chosen), &budget_) : list(std::move(chosen));
}

BoundArguments::BoundArguments(const CallArguments& arguments, std::string_view callee,
                               std::initializer_list<const char*> names, std::size_t required)
    : callee_(callee), names_(names), given_(names.size(), nullptr) {
  if (arguments.positional.size() > names_.size()) {
    throw TemplateError("expected at most " + std::to_string(names_.size()) + " arguments of " + callee_ +
                        ", got " + std::to_string(arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) given_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    std::size_t place = 0;
    while (place < names_.size() && name != names_[place]) ++place;
    if (place == names_.size())
      throw TemplateError("expected an argument that " + callee_ + " has, got " + name);
    if (given_[place] != nullptr)
      throw TemplateError("expected " + name + " of " + callee_ + " once, got it twice");
    given_[place] = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (given_[i] == nullptr)
      throw TemplateError("expected an argument " + std::string(names_[i]) + " of " + callee_ + ", got none");
  }
}

bool BoundArguments::truth(std::size_t parameter, bool otherwise) const {
  return given_[parameter] == nullptr ? otherwise : chat::truth(*given_[parameter]);
}

std::int64_t BoundArguments::whole(std::size_t parameter, std::int64_t otherwise) const {
  const Value* value = given_[parameter];
  if (value == nullptr) return otherwise;
  require_defined(*value);
  if (!value->is_whole()) {
    throw TemplateError("expected an integer for " + std::string(names_[parameter]) + " of " + callee_ +
                        ", got " + type_name(*value));
  }
  return value->whole();
}

MarkedText BoundArguments::text(std::size_t parameter, std::string_view otherwise, Budget& budget) const {
  return given_[parameter] == nullptr ? MarkedText(std::string(otherwise))
                                      : shown(*given_[parameter], budget);
}

}  // namespace heed::chat
