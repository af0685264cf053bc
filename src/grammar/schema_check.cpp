// Checks each keyword of a schema against a table, and finds out whether branches of oneOf exclude each
// other.
#include "grammar/schema_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "grammar/char_automaton.h"
#include "heed/error.h"

namespace heed::grammar {
namespace {

// JSON Schema: a number with a zero after the point is an integer.
bool is_whole(const Json& value) {
  if (!value.is_number_float()) return value.is_number_integer();
  const double number = value.get<double>();
  return number == std::trunc(number) && std::abs(number) <= 0x1p53;
}

enum class Takes {
  annotation,
  schema,
  schemas,
  named_schemas,
  type,
  values,
  value,
  names,
  count,
  number,
  text,
  boolean,
  unique,
  reference,
  identifier,
  unsupported
};

constexpr std::pair<std::string_view, Takes> kKeywords[] = {
    {"$comment", Takes::annotation},
    {"$defs", Takes::named_schemas},
    {"$dynamicRef", Takes::unsupported},
    {"$id", Takes::identifier},
    {"$recursiveRef", Takes::unsupported},
    {"$ref", Takes::reference},
    {"$schema", Takes::annotation},
    {"additionalItems", Takes::unsupported},
    {"additionalProperties", Takes::schema},
    {"allOf", Takes::schemas},
    {"anyOf", Takes::schemas},
    {"const", Takes::value},
    {"contains", Takes::unsupported},
    {"default", Takes::annotation},
    {"definitions", Takes::named_schemas},
    {"dependencies", Takes::unsupported},
    {"dependentRequired", Takes::unsupported},
    {"dependentSchemas", Takes::unsupported},
    {"deprecated", Takes::annotation},
    {"description", Takes::annotation},
    {"disallow", Takes::unsupported},
    {"discriminator", Takes::annotation},
    {"divisibleBy", Takes::unsupported},
    {"else", Takes::unsupported},
    {"enum", Takes::values},
    {"example", Takes::annotation},
    {"examples", Takes::annotation},
    {"exclusiveMaximum", Takes::number},
    {"exclusiveMinimum", Takes::number},
    {"extends", Takes::unsupported},
    {"format", Takes::text},
    {"if", Takes::unsupported},
    {"items", Takes::schema},
    {"maxContains", Takes::unsupported},
    {"maxItems", Takes::count},
    {"maxLength", Takes::count},
    {"maxProperties", Takes::unsupported},
    {"maximum", Takes::number},
    {"minContains", Takes::unsupported},
    {"minItems", Takes::count},
    {"minLength", Takes::count},
    {"minProperties", Takes::unsupported},
    {"minimum", Takes::number},
    {"multipleOf", Takes::unsupported},
    {"not", Takes::unsupported},
    {"nullable", Takes::boolean},
    {"oneOf", Takes::schemas},
    {"pattern", Takes::text},
    {"patternProperties", Takes::unsupported},
    {"prefixItems", Takes::schemas},
    {"properties", Takes::named_schemas},
    {"propertyNames", Takes::unsupported},
    {"readOnly", Takes::annotation},
    {"required", Takes::names},
    {"then", Takes::unsupported},
    {"title", Takes::annotation},
    {"type", Takes::type},
    {"unevaluatedItems", Takes::unsupported},
    {"unevaluatedProperties", Takes::unsupported},
    {"uniqueItems", Takes::unique},
    {"writeOnly", Takes::annotation},
};

const Takes* keyword(std::string_view key) {
  const auto* found = std::find_if(std::begin(kKeywords), std::end(kKeywords),
                                   [key](const auto& known) { return known.first == key; });
  return found == std::end(kKeywords) ? nullptr : &found->second;
}

class Check {
 public:
  Check(const Json& root, const std::string& where, UnsupportedKeywords unsupported,
        std::vector<std::string>& notes, std::set<std::string>& ignored)
      : root_(root), where_(where), unsupported_(unsupported), notes_(notes), ignored_(ignored) {}

  /// Checks the whole schema, and then each oneOf, once all that it may refer to has been checked.
  void run() {
    found_.push_back({&root_, "#", 1});
    while (!found_.empty()) {
      const Found next = std::move(found_.back());
      found_.pop_back();
      schema(next);
    }
    for (const auto& [branches, pointer] : one_ofs_) one_of(*branches, pointer);
  }

 private:
  /// A schema that is to be checked. Its depth counts the schemas that it is found through, whether they hold
  /// the next one or refer to it.
  struct Found {
    const Json* schema;
    std::string pointer;
    int depth;
  };

  void schema(const Found& found) {
    const auto& [given, pointer, depth] = found;
    if (given->is_boolean()) return;
    if (!given->is_object()) fail(pointer, "a schema: an object or a boolean", *given);
    if (!seen_.insert(given).second) return;
    depth_ = depth;
    const std::size_t before = found_.size();
    for (const auto& [key, value] : given->items()) member(key, value, pointer_to(pointer, key), pointer);
    std::reverse(found_.begin() + static_cast<std::ptrdiff_t>(before), found_.end());  // the first is next
    if (given->contains("oneOf")) one_ofs_.emplace_back(&(*given)["oneOf"], pointer_to(pointer, "oneOf"));
  }
  void add(const Json& schema, const std::string& pointer) {
    if (depth_ >= kDeepest) fail(pointer, "references that are less deep", schema);
    found_.push_back({&schema, pointer, depth_ + 1});
  }
  [[noreturn]] void fail(const std::string& pointer, const std::string& expected, const Json& got,
                         const char* advice = "") const {
    throw Error(where_ + ": " + pointer + ": expected " + expected + ", got " + json_shown(got) + advice);
  }
  void note(const std::string& pointer, const Json& what) {
    notes_.push_back(where_ + ": " + pointer + ": " + json_shown(what) + " is not enforced");
  }
  /// Throws Error for what a grammar cannot follow, or notes it.
  void unsupported(const std::string& pointer, const char* expected, const Json& got,
                   const char* advice = "") {
    if (unsupported_ == UnsupportedKeywords::refused) fail(pointer, expected, got, advice);
    note(pointer, got);
  }
  void texts(const Json& value, const std::string& pointer, const char* expected) const {
    if (!value.is_array()) fail(pointer, expected, value);
    for (const Json& name : value) {
      if (!name.is_string()) fail(pointer, expected, name);
    }
  }
  void member(const std::string& key, const Json& value, const std::string& pointer,
              const std::string& parent) {
    const Takes* takes = keyword(key);
    if (takes == nullptr) return note(pointer, key);  // JSON Schema: an annotation
    switch (*takes) {
      case Takes::annotation: return;
      case Takes::unsupported:
        return unsupported(pointer, "a keyword that a grammar can follow", key,
                           " (leave it out, and check it in the answer)");
      case Takes::schema:
        if (key != "items" || !value.is_array()) return add(value, pointer);
        unsupported(pointer, "a schema (a list is prefixItems)", value);
        for (std::size_t i = 0; i < value.size(); ++i) add(value[i], pointer + "/" + std::to_string(i));
        return;
      case Takes::schemas:
        if (!value.is_array() || value.empty()) fail(pointer, "an array of schemas", value);
        for (std::size_t i = 0; i < value.size(); ++i) add(value[i], pointer + "/" + std::to_string(i));
        return;
      case Takes::named_schemas:
        if (!value.is_object()) fail(pointer, "an object of schemas", value);
        for (const auto& [name, one] : value.items()) add(one, pointer_to(pointer, name));
        return;
      case Takes::type:
        for (const Json& name : value.is_array() ? value : Json::array({value})) {
          if (!name.is_string() || types_named(name.get_ref<const std::string&>()) == 0)
            fail(pointer, "array, boolean, integer, null, number, object or string", name);
        }
        return;
      case Takes::values:
        if (!value.is_array()) fail(pointer, "an array of values", value);
        return;
      case Takes::value: return;
      case Takes::names: return texts(value, pointer, "an array of names");
      case Takes::count:
        if (!is_whole(value) || value < 0) fail(pointer, "a number of at least 0", value);
        return;
      case Takes::number:
        if (!value.is_number()) fail(pointer, "a number", value);
        return valid(pointer, [&] { decimal_of(value); });
      case Takes::text:
        if (!value.is_string()) fail(pointer, "a text", value);
        return key == "format" ? format(value, pointer) : pattern(value, pointer);
      case Takes::boolean:
        if (!value.is_boolean()) fail(pointer, "true or false", value);
        return;
      case Takes::unique:
        if (value != Json(false)) unsupported(pointer, "false, as a grammar cannot compare elements", value);
        return;
      case Takes::identifier:
        if (parent != "#") unsupported(pointer, "no $id but that of the whole schema", value);
        return;
      case Takes::reference: return reference(value, pointer);
    }
  }
  void format(const Json& value, const std::string& pointer) {
    if (format_texts(value.get_ref<const std::string&>()) == nullptr) note(pointer, value);
  }
  void pattern(const Json& value, const std::string& pointer) {
    try {
      regex_texts(value.get_ref<const std::string&>(), false);
    } catch (const GrammarError& error) {
      if (unsupported_ == UnsupportedKeywords::refused)
        throw Error(where_ + ": " + pointer + ": " + error.what());
      ignored_.insert(value.get<std::string>());
      note(pointer, value);
    }
  }
  void reference(const Json& value, const std::string& pointer) {
    const Json* target = value.is_string() ? referenced(root_, value.get_ref<const std::string&>()) : nullptr;
    if (target == nullptr) fail(pointer, "a reference to a part of this schema, such as #/$defs/name", value);
    add(*target, value.get<std::string>());
  }
  template <class Make>
  void valid(const std::string& pointer, const Make& make) const {
    try {
      make();
    } catch (const GrammarError& error) {
      throw Error(where_ + ": " + pointer + ": " + error.what());
    }
  }
  void one_of(const Json& branches, const std::string& pointer) {
    if (branches.size() > kMostBranches)
      fail(pointer, "at most " + std::to_string(kMostBranches) + " branches", branches);
    for (std::size_t i = 0; i < branches.size(); ++i) {
      for (std::size_t j = i + 1; j < branches.size(); ++j) {
        if (exclude_each_other(root_, branches[i], branches[j], steps_)) continue;
        if (unsupported_ == UnsupportedKeywords::ignored) return note(pointer, "oneOf");
        throw Error(
            where_ + ": " + pointer +
            ": expected branches of which each value matches one at most, by type, by a const of a required "
            "property, or by required properties, got " +
            std::to_string(i) + " and " + std::to_string(j) + " (if both may match, use anyOf)");
      }
    }
  }

  static constexpr int kDeepest = 1000;
  static constexpr std::size_t kMostBranches = 200;
  const Json& root_;
  const std::string& where_;
  const UnsupportedKeywords unsupported_;
  std::vector<std::string>& notes_;
  std::set<std::string>& ignored_;  // patterns
  std::vector<Found> found_;        // the next one last
  std::set<const Json*> seen_;
  std::vector<std::pair<const Json*, std::string>> one_ofs_;
  int depth_ = 0;          // of the schema that is checked
  std::size_t steps_ = 0;  // of comparing branches
};

const Json& member_or_null(const Json& schema, const char* key) {
  static const Json kNull;
  const auto found = schema.find(key);
  return found == schema.end() ? kNull : *found;
}

/// The values that a schema lists, or null.
Json listed(const Json& schema) {
  if (!schema.is_object()) return {};
  if (schema.contains("const")) return Json::array({schema["const"]});
  return member_or_null(schema, "enum");
}

/// Finds out whether what is written by one schema may match another. Beyond a number of steps it may.
class Comparison {
 public:
  Comparison(const Json& root, std::size_t& steps) : root_(root), steps_(steps) {}

  /// Whether no value that is written by the first matches the second.
  bool never_match(const Json& given_written, const Json& given_other, int depth) {
    const Json &written = followed(given_written), &other = followed(given_other);
    const unsigned types = types_of(written, true, 0) & types_of(other, false, 0);
    if (exhausted()) return false;
    if (types == 0) return true;
    if (!written.is_object() || !other.is_object() || depth > kDeepest) return false;
    const Json values = listed(written), others = listed(other);
    if (values.is_array() && others.is_array()) {
      const bool shared =
          std::any_of(values.begin(), values.end(), [&](const Json& value) { return has(others, value); });
      return !shared && !exhausted();
    }
    return types == kObjectType &&
           (differ_in_property(written, other, depth) || lacks_required(written, other));
  }

 private:
  static constexpr int kDeepest = 16;
  static constexpr std::size_t kMostSteps = 2'000'000;

  bool exhausted() const { return steps_ > kMostSteps; }
  static bool is_composed(const Json& schema) {
    return schema.contains("$ref") || schema.contains("allOf") || schema.contains("anyOf") ||
           schema.contains("oneOf");
  }
  /// Follows references that stand alone.
  const Json& followed(const Json& schema) const {
    const Json* at = &schema;
    for (int i = 0; i < kDeepest && at->is_object() && at->contains("$ref"); ++i) {
      for (const auto& [key, value] : at->items()) {
        if (key != "$ref" && !is_annotation(key)) return *at;
      }
      at = referenced(root_, (*at)["$ref"].get_ref<const std::string&>());
    }
    return *at;
  }
  bool has(const Json& list, const Json& value) {
    steps_ += list.size();
    return !exhausted() && list.is_array() && std::find(list.begin(), list.end(), value) != list.end();
  }
  /// The types that may be written or, without `type`, all that match.
  unsigned types_of(const Json& given, bool written, int depth) {
    const Json& schema = followed(given);
    if (schema == Json(false)) return 0;
    if (!schema.is_object() || depth > kDeepest || ++steps_ > kMostSteps) return kAllTypes;
    if (const Json values = listed(schema); values.is_array()) {
      unsigned types = 0;
      for (const Json& value : values) types |= type_of(value);
      steps_ += values.size();
      return types;
    }
    const bool known = schema.contains("type") || (written && !is_composed(schema));
    unsigned types = known ? types_of_keywords(schema) : kAllTypes;
    for (const char* key : {"anyOf", "oneOf"}) {
      if (!schema.contains(key)) continue;
      unsigned of_branches = 0;
      for (const Json& branch : schema[key]) of_branches |= types_of(branch, written, depth + 1);
      types &= of_branches;
    }
    return member_or_null(schema, "nullable") == Json(true) ? types | kNullType : types;
  }
  /// Whether a property is always written, such that it does not match the other's.
  bool differ_in_property(const Json& written, const Json& other, int depth) {
    const Json &ours = member_or_null(written, "properties"), &theirs = member_or_null(other, "properties");
    if (!ours.is_object() || !theirs.is_object()) return false;
    for (const auto& [name, schema] : ours.items()) {
      ++steps_;
      const auto found = theirs.find(name);
      if (found != theirs.end() && has(member_or_null(written, "required"), Json(name)) &&
          never_match(schema, *found, depth + 1)) {
        return true;
      }
    }
    return false;
  }
  /// Whether what is written lacks a property that the other requires.
  bool lacks_required(const Json& written, const Json& other) {
    const Json& open = member_or_null(written, "additionalProperties");
    const Json& properties = member_or_null(written, "properties");
    const bool closed =
        open == Json(false) || (open.is_null() && properties.is_object() && !properties.empty());
    if (!closed || is_composed(written)) return false;
    for (const Json& name : member_or_null(other, "required")) {
      ++steps_;
      if (!has(member_or_null(written, "required"), name) && !exhausted() &&
          !(properties.is_object() && properties.contains(name.get_ref<const std::string&>()))) {
        return true;
      }
    }
    return false;
  }

  const Json& root_;
  std::size_t& steps_;
};

}  // namespace

void check_schema(const Json& root, const std::string& where, UnsupportedKeywords unsupported,
                  std::vector<std::string>& notes, std::set<std::string>& ignored) {
  Check(root, where, unsupported, notes, ignored).run();
}

bool exclude_each_other(const Json& root, const Json& one, const Json& other, std::size_t& steps) {
  Comparison comparison(root, steps);
  return comparison.never_match(one, other, 0) && comparison.never_match(other, one, 0);
}

bool is_annotation(std::string_view key) {
  const Takes* takes = keyword(key);
  return takes == nullptr || *takes == Takes::annotation || *takes == Takes::identifier ||
         *takes == Takes::unique || *takes == Takes::unsupported || key == "$defs" || key == "definitions";
}

std::string pointer_to(const std::string& pointer, std::string_view key) {
  std::string result = pointer + "/";
  for (const char c : key) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

const Json* referenced(const Json& root, std::string_view reference) {
  if (reference.empty() || reference[0] != '#') return nullptr;
  reference.remove_prefix(1);
  std::string pointer;
  const auto hex = [](char c) {
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                    : -1;
  };
  for (std::size_t i = 0; i < reference.size(); ++i) {
    if (reference[i] == '%' && i + 2 < reference.size() && hex(reference[i + 1]) >= 0 &&
        hex(reference[i + 2]) >= 0) {
      pointer += static_cast<char>(hex(reference[i + 1]) * 16 + hex(reference[i + 2]));
      i += 2;
    } else {
      pointer += reference[i];
    }
  }
  const Json* at = &root;
  for (std::size_t begin = 0; begin < pointer.size();) {
    if (pointer[begin] != '/') return nullptr;
    const std::size_t end = std::min(pointer.find('/', begin + 1), pointer.size());
    std::string key;
    for (std::size_t i = begin + 1; i < end; ++i) {
      const bool escaped =
          pointer[i] == '~' && i + 1 < end && (pointer[i + 1] == '0' || pointer[i + 1] == '1');
      if (escaped) ++i;
      key += !escaped ? pointer[i] : pointer[i] == '0' ? '~' : '/';
    }
    if (at->is_array()) {
      const bool index = !key.empty() && key.size() < 7 && key.find_first_not_of("0123456789") == key.npos;
      if (!index || std::stoul(key) >= at->size()) return nullptr;
      at = &(*at)[std::stoul(key)];
    } else {
      const auto found = at->is_object() ? at->find(key) : at->end();
      if (found == at->end()) return nullptr;
      at = &*found;
    }
    begin = end;
  }
  return at;
}

}  // namespace heed::grammar
