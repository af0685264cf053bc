// Values as Python has them: truth, equality, order, printing.
#include "chat/value.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "chat/letters.h"
#include "core/utf8.h"

namespace heed::chat {
namespace {

constexpr int kMaxValueDepth = 100;   // of lists and dicts
constexpr int kMaxObjectDepth = 200;  // of objects that hold these and one another

int checked_depth(int depth) {
  if (depth > kMaxValueDepth) {
    throw TemplateError("expected lists and dicts nested at most " + std::to_string(kMaxValueDepth) +
                        " deep, got deeper ones");
  }
  return depth;
}

int depth_of(const Values& values) {
  int deepest = 0;
  for (const Value& value : values) deepest = std::max(deepest, value.depth());
  return checked_depth(deepest + 1);
}

/// Appends what is known to fit.
void grow(MarkedText& out, std::string_view bytes, Budget& budget) {
  budget.scan(bytes.size());
  budget.check(out.size() + bytes.size());
  out.append(bytes);
}

std::string text_repr(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos, has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  char buffer[16];
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_character(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (is_printable(c)) {
      out += text.substr(begin, at - begin);
    } else {
      const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(buffer, sizeof buffer, format, static_cast<unsigned>(c));
      out += buffer;
    }
  }
  return out + quote;
}

void append_elements(MarkedText& out, const Values& values, Budget& budget) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) grow(out, ", ", budget);
    append_repr(out, values[i], budget);
  }
}

bool equal_elements(const Values& a, const Values& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i], budget)) return false;
  }
  return true;
}

bool equal_entries(const Dict& a, const Dict& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other, budget)) return false;
  }
  return true;
}

}  // namespace

Value Value::boolean(bool value) {
  Value result;
  result.held_ = value;
  return result;
}

Value Value::integer(std::int64_t value) {
  Value result;
  result.held_ = value;
  return result;
}

Value Value::real(double value) {
  Value result;
  result.held_ = value;
  return result;
}

Value::Text::Text(MarkedText from, Budget* budget)
    : text(std::move(from)),
      charge(budget,
             96 + text.size() +
                 sizeof(TextSpan) * (text.spans(Mark::data).size() + text.spans(Mark::generated).size())) {
  if (budget != nullptr) budget->scan(text.size());
}

Value Value::text(MarkedText value, Budget* budget) {
  Value result;
  result.held_ = std::make_shared<const Text>(std::move(value), budget);
  return result;
}

SequenceValue::SequenceValue(Values from, bool is_tuple, Budget* budget)
    : values(std::move(from)),
      tuple(is_tuple),
      depth(depth_of(values)),
      charge(budget, 96 + sizeof(Value) * values.capacity()) {
  if (budget != nullptr) budget->step(values.size());
}

Value Value::list(Values values, Budget* budget) {
  Value result;
  result.held_ = std::make_shared<const SequenceValue>(std::move(values), false, budget);
  return result;
}

Value Value::list(std::shared_ptr<const SequenceValue> elements) {
  Value result;
  result.held_ = std::move(elements);
  return result;
}

Value Value::tuple(Values values, Budget* budget) {
  Value result;
  result.held_ = std::make_shared<const SequenceValue>(std::move(values), true, budget);
  return result;
}

Value Value::group(Values values, Budget* budget) {
  auto pair = std::make_shared<SequenceValue>(std::move(values), true, budget);
  pair->group = true;
  Value result;
  result.held_ = std::shared_ptr<const SequenceValue>(std::move(pair));
  return result;
}

Value Value::dict(Dict value, Budget* budget) {
  std::size_t bytes = 96;
  for (const auto& [key, held] : value.entries) {
    value.depth = std::max({value.depth, key.depth(), held.depth()});
    bytes += 160 + (key.is_text() ? key.bytes().size() : 0);
  }
  checked_depth(++value.depth);
  value.charge = std::make_shared<BudgetCharge>(budget, bytes);
  if (budget != nullptr) budget->step(value.entries.size());
  Value result;
  result.held_ = std::make_shared<const Dict>(std::move(value));
  return result;
}

Value Value::object(std::shared_ptr<Object> value) {
  if (value->depth > kMaxObjectDepth)
    throw TemplateError("expected objects that hold one another at most " + std::to_string(kMaxObjectDepth) +
                        " deep, got deeper ones");
  Value result;
  result.held_ = std::move(value);
  return result;
}

Value Value::undefined(std::string message) {
  Value result;
  result.held_ = std::make_shared<const Undefined>(Undefined{std::move(message)});
  return result;
}

bool Value::is_list() const { return is_sequence() && !sequence().tuple; }
bool Value::is_tuple() const { return is_sequence() && sequence().tuple; }
const Values& Value::items() const {
  if (sequence().grows) throw OpenListRead();
  return sequence().values;
}

const Values& Value::items_so_far() const { return sequence().values; }

bool Value::same_as(const Value& other) const {
  if (held_.index() != other.held_.index()) return false;
  return is_undefined() || held_ == other.held_;
}

int Value::depth() const {
  if (is_sequence()) return sequence().depth;
  if (is_dict()) return dict().depth;
  const Object* object = as<Object>();
  return object == nullptr ? 0 : object->depth;
}

void Dict::set(Value key, Value value) {
  const auto [place, added] = places_.try_emplace(hash_key(key), entries.size());
  if (added) {
    entries.emplace_back(std::move(key), std::move(value));
  } else {
    entries[place->second].second = std::move(value);
  }
}

const Value* Dict::find(const Value& key) const {
  const auto place = places_.find(hash_key(key));
  return place == places_.end() ? nullptr : &entries[place->second].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto place = places_.find("s" + std::string(key));
  return place == places_.end() ? nullptr : &entries[place->second].second;
}

Value Object::call(Renderer&, const CallArguments&) {
  throw TemplateError("expected a macro, function or method to call, got " + type());
}

std::optional<Value> Object::attribute(std::string_view, const Value&, Budget&) const { return std::nullopt; }

Iterator::Iterator(Values from, Budget& given)
    : values(std::move(from)), budget(given), charge(&given, 128 + sizeof(Value) * values.capacity()) {
  depth = depth_of(values);
  ++budget.iterators;
}

std::optional<Value> Namespace::attribute(std::string_view name, const Value&, Budget&) const {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return std::nullopt;
  return found->second;
}

Values Iterator::rest() {
  Values result(values.begin() + static_cast<std::ptrdiff_t>(next), values.end());
  next = values.size();
  return result;
}

View::View(std::string type_name, Values elements, Budget& budget, std::string range_shown)
    : name(std::move(type_name)),
      values(std::move(elements)),
      shown(std::move(range_shown)),
      charge(&budget, 192 + sizeof(Value) * values.capacity()) {
  depth = depth_of(values);
}

std::string hash_key(const Value& value) {
  if (value.is_text()) return "s" + value.bytes();
  if (value.is_none()) return "n";
  if (value.is_undefined()) return "u";
  if (value.is_whole()) return "i" + std::to_string(value.whole());
  if (value.is_real()) {
    const double number = value.number();
    if (number == std::floor(number) && std::abs(number) < 9e18)
      return "i" + std::to_string(static_cast<std::int64_t>(number));
    return "r" + std::to_string(std::bit_cast<std::uint64_t>(number));
  }
  if (value.is_tuple()) {
    std::string key = "t";
    for (const Value& item : value.items()) {
      const std::string part = hash_key(item);
      key += std::to_string(part.size()) + ":" + part;
      if (key.size() > (1u << 20)) throw TemplateError("expected a key of less than 1 MiB, got a longer one");
    }
    return key;
  }
  if (const Object* object = value.as<Object>())
    return "o" + std::to_string(reinterpret_cast<std::uintptr_t>(object));
  throw TemplateError("expected a key that is a string, number or tuple, got " + type_name(value));
}

std::string type_name(const Value& value) {
  if (value.is_none()) return "None";
  if (value.is_boolean()) return "bool";
  if (value.is_integer()) return "int";
  if (value.is_real()) return "float";
  if (value.is_text()) return "str";
  if (value.is_list()) return "list";
  if (value.is_tuple()) return "tuple";
  if (value.is_dict()) return "dict";
  if (value.is_undefined()) return "undefined";
  return value.as<Object>()->type();
}

bool truth(const Value& value) {
  if (value.is_number()) return value.number() != 0;
  if (value.is_text()) return !value.text().empty();
  if (value.is_sequence()) return !value.items_so_far().empty() || !value.items().empty();
  if (value.is_dict()) return !value.dict().entries.empty();
  if (const View* view = value.as<View>()) return !view->values.empty();
  return !value.is_none() && !value.is_undefined();
}

std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The shortest digits that are read back as the same number, with an exponent where Python has one.
  char buffer[64];
  const double size = std::abs(value);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                 scientific ? std::chars_format::scientific : std::chars_format::fixed)
                       .ptr;
  std::string text(buffer, end);
  if (!scientific && text.find('.') == text.npos) text += ".0";
  return text;
}

MarkedText shown(const Value& value, Budget& budget) {
  if (value.is_text()) {
    budget.scan(value.text().size());
    return value.text();
  }
  MarkedText out;
  if (!value.is_undefined()) append_repr(out, value, budget);
  return out;
}

void append_repr(MarkedText& out, const Value& value, Budget& budget) {
  budget.step();
  if (value.is_none()) return out.append("None");
  if (value.is_boolean()) return out.append(value.boolean() ? "True" : "False");
  if (value.is_integer()) return out.append(std::to_string(value.whole()));
  if (value.is_real()) return out.append(real_repr(value.number()));
  if (value.is_undefined()) return out.append("Undefined");
  if (value.is_text()) {
    budget.scan(value.text().size());
    budget.check(out.size() + 10 * value.text().size());
    return value.text().append_derived(out, text_repr(value.bytes()));
  }
  if (value.is_sequence()) {
    const Values& items = value.items();
    grow(out, value.is_list() ? "[" : "(", budget);
    append_elements(out, items, budget);
    return out.append(value.is_list() ? "]" : items.size() == 1 ? ",)" : ")");
  }
  if (value.is_dict()) {
    grow(out, "{", budget);
    const char* comma = "";
    for (const auto& [key, held] : value.dict().entries) {
      grow(out, comma, budget);
      append_repr(out, key, budget);
      grow(out, ": ", budget);
      append_repr(out, held, budget);
      comma = ", ";
    }
    return out.append("}");
  }
  if (const View* view = value.as<View>()) {
    if (!view->shown.empty()) return out.append(view->shown);
    out.append(view->name + "([");
    append_elements(out, view->values, budget);
    return out.append("])");
  }
  out.append("<" + type_name(value) + ">");
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_whole() && b.is_whole()) return a.whole() == b.whole();
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.is_text() && b.is_text()) {
    budget.scan(std::min(a.text().size(), b.text().size()));
    return a.bytes() == b.bytes();
  }
  if (a.is_sequence() && b.is_sequence())
    return a.is_list() == b.is_list() && equal_elements(a.items(), b.items(), budget);
  if (a.is_dict() && b.is_dict()) return equal_entries(a.dict(), b.dict(), budget);
  const View* first = a.as<View>();
  const View* second = b.as<View>();
  if (first != nullptr && second != nullptr)
    return first->name == second->name && equal_elements(first->values, second->values, budget);
  return a.same_as(b);
}

bool less(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_whole() && b.is_whole()) return a.whole() < b.whole();
  if (a.is_number() && b.is_number()) return a.number() < b.number();
  if (a.is_text() && b.is_text()) {
    budget.scan(std::min(a.text().size(), b.text().size()));
    return a.bytes() < b.bytes();  // the order of UTF-8 is that of the characters
  }
  if (a.is_sequence() && b.is_sequence() && a.is_list() == b.is_list()) {
    const std::size_t shared = std::min(a.items().size(), b.items().size());
    for (std::size_t i = 0; i < shared; ++i) {
      if (!equal(a.items()[i], b.items()[i], budget)) return less(a.items()[i], b.items()[i], budget);
    }
    return a.items().size() < b.items().size();
  }
  require_defined(a);
  require_defined(b);
  throw TemplateError("expected two values that have an order, got " + type_name(a) + " and " + type_name(b));
}

Values elements_of(const Value& value, Budget& budget) {
  Values elements;
  if (value.is_sequence()) {
    elements = value.items();
  } else if (value.is_text()) {
    const MarkedText& text = value.text();
    for (const std::string_view character : characters_of(text.bytes())) {
      const auto begin = static_cast<std::size_t>(character.data() - text.bytes().data());
      elements.push_back(Value::text(text.part(begin, begin + character.size()), &budget));
    }
  } else if (value.is_dict()) {
    for (const auto& entry : value.dict().entries) elements.push_back(entry.first);
  } else if (const View* view = value.as<View>()) {
    elements = view->values;
  } else if (Iterator* iterator = value.as<Iterator>()) {
    elements = iterator->rest();
  } else if (!value.is_undefined()) {
    throw TemplateError("expected a list, dict or string to go through, got " + type_name(value));
  }
  budget.step(elements.size());
  return elements;
}

std::int64_t length_of(const Value& value, Budget& budget) {
  std::size_t size = 0;
  if (value.is_text()) {
    const std::string& text = value.bytes();
    budget.scan(text.size());
    size = static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_utf8_start));
  } else if (value.is_sequence()) {
    size = value.items().size();
  } else if (value.is_dict()) {
    size = value.dict().entries.size();
  } else if (const View* view = value.as<View>()) {
    size = view->values.size();
  } else if (!value.is_undefined()) {
    throw TemplateError("expected a list, dict or string, which have a length, got " + type_name(value));
  }
  return static_cast<std::int64_t>(size);
}

bool contains(const Value& whole, const Value& part, Budget& budget) {
  if (whole.is_text()) {
    if (!part.is_text())
      throw TemplateError("expected a string to look for in a string, got " + type_name(part));
    budget.scan(whole.text().size() + part.text().size());
    return find_text(whole.bytes(), part.bytes()) != std::string::npos;
  }
  if (whole.is_dict()) {
    if (part.is_text()) budget.scan(part.text().size());
    return whole.dict().find(part) != nullptr;
  }
  for (const Value& element : elements_of(whole, budget)) {
    if (element.same_as(part) || equal(element, part, budget)) return true;
  }
  return false;
}

void require_defined(const Value& value) {
  if (value.is_undefined()) throw TemplateError(value.undefined());
}

}  // namespace heed::chat
