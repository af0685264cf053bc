// Filters of lists and dicts: sort, groupby, map, select, join, ...
#include <algorithm>
#include <set>

#include "chat/functions.h"
#include "core/utf8.h"
#include "heed/text/unicode.h"

namespace heed::chat {
namespace {

/// What map, select and their like go through: nothing where the input is false, None included.
Values elements_if_any(Renderer& renderer, const Value& input) {
  return truth(input) ? elements_of(input, renderer.budget()) : Values{};
}

Value generator(Renderer& renderer, Values values) {
  return Value::object(std::make_shared<Iterator>(std::move(values), renderer.budget()));
}

/// How elements of a list become what a filter compares, joins or adds: itself, or an attribute that a path
/// such as "a.b.0" leads to.
class Getter {
 public:
  Getter(Renderer& renderer, const Value* path, const Value* otherwise = nullptr)
      : renderer_(renderer), otherwise_(otherwise) {
    if (path == nullptr || path->is_none()) return;
    require_defined(*path);
    if (path->is_whole()) {
      keys_.push_back(*path);
      return;
    }
    const std::string text = shown(*path, renderer.budget()).bytes();
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('.', begin), text.size());
      const std::string key = text.substr(begin, end - begin);
      const bool digits = !key.empty() && key.size() < 18 && key.find_first_not_of("0123456789") == key.npos;
      keys_.push_back(digits ? Value::integer(std::stoll(key)) : renderer.text(key));
      begin = end + 1;
    }
  }
  Value operator()(const Value& element) const {
    Value value = element;
    for (const Value& key : keys_) {
      value = renderer_.item(value, key);
      if (value.is_undefined() && otherwise_ != nullptr && !otherwise_->is_none()) value = *otherwise_;
    }
    return value;
  }

 private:
  Renderer& renderer_;
  Values keys_;
  const Value* otherwise_;
};

/// What an element is sorted by: itself or an attribute, with strings in lower case unless case matters. With
/// `several`, a list of attributes, which a path with commas names.
class SortKey {
 public:
  SortKey(Renderer& renderer, const Value* paths, bool case_matters, bool several = false)
      : renderer_(renderer), case_matters_(case_matters), several_(several) {
    if (!several || paths == nullptr || !paths->is_text()) {
      getters_.emplace_back(renderer, paths);
      return;
    }
    const std::string text = paths->bytes();
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      const Value path = renderer.text(text.substr(begin, end - begin));
      getters_.emplace_back(renderer, &path);
      begin = end + 1;
    }
  }
  Value operator()(const Value& element) const {
    if (!several_) return folded(getters_[0](element));
    Values keys;
    for (const Getter& getter : getters_) keys.push_back(folded(getter(element)));
    return renderer_.list(std::move(keys));
  }
  Value folded(Value key) const {
    if (case_matters_ || !key.is_text()) return key;
    renderer_.budget().scan(key.text().size());
    return renderer_.text(lower_case(key.bytes()));
  }

 private:
  Renderer& renderer_;
  std::vector<Getter> getters_;
  bool case_matters_;
  bool several_;
};

/// The elements in the order of their keys; equal ones stay in theirs.
Values sorted(Renderer& renderer, const Values& elements, const SortKey& key, bool reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& element : elements) keyed.emplace_back(key(element), element);
  const auto before = [&](const auto& a, const auto& b) {
    return reverse ? less(b.first, a.first, renderer.budget()) : less(a.first, b.first, renderer.budget());
  };
  std::stable_sort(keyed.begin(), keyed.end(), before);
  Values result;
  for (auto& pair : keyed) result.push_back(std::move(pair.second));
  return result;
}

Value sort(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "sort", {"reverse", "case_sensitive", "attribute"});
  const SortKey key(renderer, given[2], given.truth(1, false), true);
  return renderer.list(sorted(renderer, elements_of(input, renderer.budget()), key, given.truth(0, false)));
}

Value unique(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "unique", {"case_sensitive", "attribute"});
  const SortKey key(renderer, given[1], given.truth(0, false));
  std::set<std::string> seen;
  Values kept;
  for (const Value& element : elements_of(input, renderer.budget())) {
    const Value sought = key(element);
    if (sought.is_text()) renderer.budget().scan(sought.text().size());
    if (seen.insert(hash_key(sought)).second) kept.push_back(element);
  }
  return generator(renderer, std::move(kept));
}

Value group(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "groupby", {"attribute", "default", "case_sensitive"}, 1);
  const Getter attribute(renderer, given[0], given[1]);
  const SortKey fold(renderer, nullptr, given.truth(2, false));
  Values keyed;
  for (const Value& element : elements_of(input, renderer.budget()))
    keyed.push_back(renderer.list({attribute(element), element}));
  const Value first = Value::integer(0);
  keyed = sorted(renderer, keyed, SortKey(renderer, &first, given.truth(2, false)), false);
  Values groups;
  for (std::size_t i = 0; i < keyed.size();) {
    const Value grouper = keyed[i].items()[0], folded = fold.folded(grouper);
    Values members;
    for (; i < keyed.size() && equal(fold.folded(keyed[i].items()[0]), folded, renderer.budget()); ++i)
      members.push_back(keyed[i].items()[1]);
    if (members.empty()) members.push_back(keyed[i++].items()[1]);  // what is not equal to itself
    groups.push_back(Value::group({grouper, renderer.list(std::move(members))}, &renderer.budget()));
  }
  return renderer.list(std::move(groups));
}

Value extreme(Renderer& renderer, const Value& input, const CallArguments& arguments, bool largest) {
  const BoundArguments given(arguments, largest ? "max" : "min", {"case_sensitive", "attribute"});
  const Getter attribute(renderer, given[1]);
  const SortKey fold(renderer, nullptr, given.truth(0, false));
  const Values elements = elements_of(input, renderer.budget());
  if (elements.empty()) return Value::undefined("expected elements to choose from, got none");
  Value best = elements[0], best_key = fold.folded(attribute(best));
  for (std::size_t i = 1; i < elements.size(); ++i) {
    const Value key = fold.folded(attribute(elements[i]));
    if (!(largest ? less(best_key, key, renderer.budget()) : less(key, best_key, renderer.budget())))
      continue;
    best = elements[i];
    best_key = key;
  }
  return best;
}

Value sum(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "sum", {"attribute", "start"});
  const Getter attribute(renderer, given[0]);
  Value total = given[1] == nullptr ? Value::integer(0) : *given[1];
  if (total.is_text()) throw TemplateError("expected numbers to add, got a string (use join)");
  for (const Value& element : elements_of(input, renderer.budget()))
    total = arithmetic(renderer, "+", total, attribute(element));
  return total;
}

Value map(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  Values mapped;
  if (arguments.positional.empty()) {
    const BoundArguments given(arguments, "map", {"attribute", "default"}, 1);
    const Getter attribute(renderer, given[0], given[1]);
    for (const Value& element : elements_if_any(renderer, input)) mapped.push_back(attribute(element));
    return generator(renderer, std::move(mapped));
  }
  const Value& name = arguments.positional.front();
  if (!name.is_text()) throw TemplateError("expected the name of a filter for map, got " + type_name(name));
  const CallArguments rest{Values(arguments.positional.begin() + 1, arguments.positional.end()),
                           arguments.named};
  for (const Value& element : elements_if_any(renderer, input))
    mapped.push_back(renderer.filter(name.bytes(), element, rest));
  return generator(renderer, std::move(mapped));
}

/// select, reject, selectattr and rejectattr: the elements whose value, or attribute, passes a test.
Value select(Renderer& renderer, const Value& input, const CallArguments& arguments, bool wanted,
             bool by_attribute) {
  const Values& given = arguments.positional;
  const std::size_t first = by_attribute ? 1 : 0;
  if (given.size() < first) throw TemplateError("expected the name of an attribute, got none");
  const Getter attribute(renderer, by_attribute ? &given[0] : nullptr);
  if (given.size() > first && !given[first].is_text())
    throw TemplateError("expected the name of a test, got " + type_name(given[first]));
  CallArguments rest{{}, arguments.named};
  if (given.size() > first)
    rest.positional.assign(given.begin() + static_cast<std::ptrdiff_t>(first) + 1, given.end());
  Values kept;
  for (const Value& element : elements_if_any(renderer, input)) {
    const Value value = attribute(element);
    const bool passes =
        given.size() > first ? renderer.test(given[first].bytes(), value, rest) : truth(value);
    if (passes == wanted) kept.push_back(element);
  }
  return generator(renderer, std::move(kept));
}

Value join(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "join", {"d", "attribute"});
  const MarkedText between = given.text(0, "", renderer.budget());
  const Getter attribute(renderer, given[1]);
  MarkedText out;
  bool first = true;
  for (const Value& element : elements_of(input, renderer.budget())) {
    const MarkedText piece = shown(attribute(element), renderer.budget());
    renderer.budget().step();
    renderer.budget().check(out.size() + between.size() + piece.size());
    if (!first) out.append(between);
    out.append(piece);
    first = false;
  }
  return renderer.text(std::move(out));
}

Value otherwise(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "default", {"default_value", "boolean"});
  const bool absent = input.is_undefined() || (given.truth(1, false) && !truth(input));
  if (!absent) return input;
  return given[0] == nullptr ? renderer.text(std::string()) : *given[0];
}

Value first(Renderer& renderer, const Value& input, const CallArguments&) {
  if (Iterator* iterator = input.as<Iterator>();
      iterator != nullptr && iterator->next < iterator->values.size())
    return iterator->values[iterator->next++];
  const Values elements = elements_of(input, renderer.budget());
  return elements.empty() ? Value::undefined("expected a first element, got an empty sequence")
                          : elements.front();
}

Value last(Renderer& renderer, const Value& input, const CallArguments&) {
  if (input.as<Iterator>() != nullptr)
    throw TemplateError("expected a list, got a generator, which has no known end (use list)");
  const Values elements = elements_of(input, renderer.budget());
  return elements.empty() ? Value::undefined("expected a last element, got an empty sequence")
                          : elements.back();
}

Value reverse(Renderer& renderer, const Value& input, const CallArguments&) {
  Values elements = elements_of(input, renderer.budget());
  std::reverse(elements.begin(), elements.end());
  if (!input.is_text()) return generator(renderer, std::move(elements));
  MarkedText out;
  for (const Value& element : elements) out.append(element.text());
  return renderer.text(std::move(out));
}

Value dictsort(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "dictsort", {"case_sensitive", "by", "reverse"});
  const std::string by = given.text(1, "key", renderer.budget()).bytes();
  require_defined(input);
  if (!input.is_dict()) throw TemplateError("expected a dict to sort, got " + type_name(input));
  if (by != "key" && by != "value") throw TemplateError("expected key or value to sort a dict by, got " + by);
  Values pairs;
  for (const auto& [key, value] : input.dict().entries)
    pairs.push_back(Value::tuple({key, value}, &renderer.budget()));
  const Value place = Value::integer(by == "key" ? 0 : 1);
  return renderer.list(
      sorted(renderer, pairs, SortKey(renderer, &place, given.truth(0, false)), given.truth(2, false)));
}

Value items(Renderer& renderer, const Value& input, const CallArguments&) {
  Values pairs;
  if (input.is_undefined()) return generator(renderer, {});
  if (!input.is_dict()) throw TemplateError("expected a dict, which has items, got " + type_name(input));
  for (const auto& [key, value] : input.dict().entries)
    pairs.push_back(Value::tuple({key, value}, &renderer.budget()));
  return generator(renderer, std::move(pairs));
}

std::size_t positive(const BoundArguments& given, std::string_view what) {
  const std::int64_t count = given.whole(0, 0);
  if (count < 1 || count > 1'000'000)
    throw TemplateError("expected a number of " + std::string(what) + " from 1 to 1000000, got " +
                        std::to_string(count));
  return static_cast<std::size_t>(count);
}

Value batch(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "batch", {"linecount", "fill_with"}, 1);
  const std::size_t size = positive(given, "elements in a batch");
  const Values elements = elements_of(input, renderer.budget());
  Values batches;
  for (std::size_t i = 0; i < elements.size(); i += size) {
    const std::size_t end = std::min(i + size, elements.size());
    Values row(elements.begin() + static_cast<std::ptrdiff_t>(i),
               elements.begin() + static_cast<std::ptrdiff_t>(end));
    if (given[1] != nullptr && !given[1]->is_none()) {
      renderer.budget().step(size);
      row.resize(size, *given[1]);
    }
    batches.push_back(renderer.list(std::move(row)));
  }
  return generator(renderer, std::move(batches));
}

Value slice(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "slice", {"slices", "fill_with"}, 1);
  const std::size_t slices = positive(given, "slices");
  const Values elements = elements_of(input, renderer.budget());
  const std::size_t each = elements.size() / slices, larger = elements.size() % slices;
  Values parts;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < slices; ++i) {
    const std::size_t end = begin + each + (i < larger ? 1 : 0);
    Values part(elements.begin() + static_cast<std::ptrdiff_t>(begin),
                elements.begin() + static_cast<std::ptrdiff_t>(end));
    if (given[1] != nullptr && !given[1]->is_none() && i >= larger) part.push_back(*given[1]);
    parts.push_back(renderer.list(std::move(part)));
    begin = end;
  }
  return generator(renderer, std::move(parts));
}

}  // namespace

const Filters& sequence_filters() {
  using R = Renderer&;
  using V = const Value&;
  using A = const CallArguments&;
  static const Filters kFilters{
      {"attr",
       [](R r, V x, A a) {
         const BoundArguments given(a, "attr", {"name"}, 1);
         const std::string name = given.text(0, "", r.budget()).bytes();
         if (!x.is_dict()) return r.attribute(x, name);
         if (const auto method = method_of(x, name)) return *method;
         return Value::undefined("expected an attribute that a dict has, got " + name);
       }},
      {"batch", batch},
      {"count", [](R r, V x, A) { return Value::integer(length_of(x, r.budget())); }},
      {"d", otherwise},
      {"default", otherwise},
      {"dictsort", dictsort},
      {"first", first},
      {"groupby", group},
      {"items", items},
      {"join", join},
      {"last", last},
      {"length", [](R r, V x, A) { return Value::integer(length_of(x, r.budget())); }},
      {"list", [](R r, V x, A) { return r.list(elements_of(x, r.budget())); }},
      {"map", map},
      {"max", [](R r, V x, A a) { return extreme(r, x, a, true); }},
      {"min", [](R r, V x, A a) { return extreme(r, x, a, false); }},
      {"reject", [](R r, V x, A a) { return select(r, x, a, false, false); }},
      {"rejectattr", [](R r, V x, A a) { return select(r, x, a, false, true); }},
      {"reverse", reverse},
      {"select", [](R r, V x, A a) { return select(r, x, a, true, false); }},
      {"selectattr", [](R r, V x, A a) { return select(r, x, a, true, true); }},
      {"slice", slice},
      {"sort", sort},
      {"sum", sum},
      {"unique", unique},
  };
  return kFilters;
}

}  // namespace heed::chat
