// Resolves references, distributes alternatives, and merges what applies at the same time.
#include "grammar/schema_parts.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace heed::grammar {
namespace {

constexpr int kDeepestParts = 100;
constexpr std::size_t kMostParts = 500, kMostWork = std::size_t{16} << 20, kWorkOfCall = 64;

constexpr std::pair<std::string_view, unsigned> kMentioned[] = {
    {"additionalProperties", kObjectType},
    {"exclusiveMaximum", kIntegerType | kFractionType},
    {"exclusiveMinimum", kIntegerType | kFractionType},
    {"items", kArrayType},
    {"maxItems", kArrayType},
    {"maxLength", kStringType},
    {"maximum", kIntegerType | kFractionType},
    {"minItems", kArrayType},
    {"minLength", kStringType},
    {"minimum", kIntegerType | kFractionType},
    {"pattern", kStringType},
    {"prefixItems", kArrayType},
    {"properties", kObjectType},
    {"required", kObjectType},
};

/// The format of a schema, if it is enforced; else null.
const std::string* known_format(const Json& schema) {
  const auto found = schema.find("format");
  if (found == schema.end()) return nullptr;
  const std::string& format = found->get_ref<const std::string&>();
  return format_texts(format) == nullptr ? nullptr : &format;
}

unsigned mentioned_types(const Json& schema) {
  unsigned types = 0;
  for (const auto& [key, about] : kMentioned) {
    if (schema.contains(key)) types |= about;
  }
  return known_format(schema) != nullptr ? types | kStringType : types;
}

unsigned types_in(const Json& type) {
  if (type.is_string()) return types_named(type.get_ref<const std::string&>());
  unsigned types = 0;
  for (const Json& name : type) types |= types_named(name.get_ref<const std::string&>());
  return types;
}

/// What the schema itself says, without references and what is composed.
SchemaPart own_part(const Json& schema) {
  SchemaPart part;
  part.mentioned = mentioned_types(schema);
  part.bytes = json_text(schema).size();
  const auto find = [&schema](const char* key) -> const Json* {
    const auto found = schema.find(key);
    return found == schema.end() ? nullptr : &*found;
  };
  if (const Json* type = find("type")) {
    part.types = types_in(*type);
    part.typed = true;
  }
  if (const Json* values = find("enum")) part.values.emplace(values->begin(), values->end());
  if (const Json* value = find("const")) {
    const bool both =
        !part.values || std::find(part.values->begin(), part.values->end(), *value) != part.values->end();
    part.values.emplace();
    if (both) part.values->push_back(*value);
  }
  for (const bool exclusive : {false, true}) {
    if (const Json* bound = find(exclusive ? "exclusiveMinimum" : "minimum"))
      part.lower.push_back({decimal_of(*bound), exclusive});
    if (const Json* bound = find(exclusive ? "exclusiveMaximum" : "maximum"))
      part.upper.push_back({decimal_of(*bound), exclusive});
  }
  const auto count = [&](const char* key, auto& to) {
    if (const Json* value = find(key)) to = value->get<std::int64_t>();
  };
  count("minLength", part.least_length);
  count("maxLength", part.most_length);
  count("minItems", part.least_items);
  count("maxItems", part.most_items);
  if (const Json* pattern = find("pattern")) part.patterns.push_back(*pattern);
  if (const std::string* format = known_format(schema)) part.formats.push_back(*format);
  if (const Json* prefix = find("prefixItems")) part.prefix.assign(prefix->begin(), prefix->end());
  if (const Json* items = find("items"); items != nullptr && items->is_array()) {
    part.prefix.assign(items->begin(), items->end());
  } else if (items != nullptr) {
    part.items = *items;
  }
  if (const Json* properties = find("properties")) {
    for (const auto& [name, property] : properties->items()) part.properties.emplace_back(name, property);
  }
  if (const Json* required = find("required")) {
    for (const Json& name : *required) part.required.push_back(name);
  }
  if (const Json* additional = find("additionalProperties")) part.additional = *additional;
  return part;
}

template <class Value>
void append(std::vector<Value>& to, const std::vector<Value>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::optional<Json> both_of(const std::optional<Json>& one, const std::optional<Json>& other) {
  if (one && other) return both_schemas(*one, *other);
  return one ? one : other;
}

std::optional<std::int64_t> smaller(std::optional<std::int64_t> one, std::optional<std::int64_t> other) {
  if (one && other) return std::min(*one, *other);
  return one ? one : other;
}

void merge_properties(SchemaPart& part, const SchemaPart& other) {
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < part.properties.size(); ++i) known.emplace(part.properties[i].first, i);
  std::vector<bool> in_both(part.properties.size());
  for (const auto& [name, schema] : other.properties) {
    const auto found = known.find(name);
    if (found == known.end()) {
      part.properties.emplace_back(name, part.additional ? both_schemas(*part.additional, schema) : schema);
    } else {
      Json& ours = part.properties[found->second].second;
      ours = both_schemas(ours, schema);
      in_both[found->second] = true;
    }
  }
  for (std::size_t i = 0; other.additional && i < in_both.size(); ++i) {
    Json& ours = part.properties[i].second;
    if (!in_both[i]) ours = both_schemas(ours, *other.additional);
  }
  append(part.required, other.required);
  part.additional = both_of(part.additional, other.additional);
}

SchemaPart merged(SchemaPart part, const SchemaPart& other) {
  part.types &= other.types;
  part.bytes += other.bytes;
  part.typed = part.typed || other.typed;
  part.mentioned |= other.mentioned;
  if (part.values && other.values) {
    std::erase_if(*part.values, [&](const Json& value) {
      return std::find(other.values->begin(), other.values->end(), value) == other.values->end();
    });
  } else if (other.values) {
    part.values = other.values;
  }
  append(part.lower, other.lower);
  append(part.upper, other.upper);
  append(part.patterns, other.patterns);
  append(part.formats, other.formats);
  part.least_length = std::max(part.least_length, other.least_length);
  part.least_items = std::max(part.least_items, other.least_items);
  part.most_length = smaller(part.most_length, other.most_length);
  part.most_items = smaller(part.most_items, other.most_items);
  const std::size_t prefix = std::max(part.prefix.size(), other.prefix.size());
  const auto element = [](const SchemaPart& of, std::size_t i) {
    return i < of.prefix.size() ? std::optional<Json>(of.prefix[i]) : of.items;
  };
  std::vector<Json> elements;
  for (std::size_t i = 0; i < prefix; ++i) elements.push_back(*both_of(element(part, i), element(other, i)));
  part.prefix = std::move(elements);
  part.items = both_of(part.items, other.items);
  merge_properties(part, other);
  return part;
}

class Parts {
 public:
  Parts(const Json& root, std::size_t& work) : root_(root), work_(work) {}

  std::vector<SchemaPart> of(const Json& schema, int depth) {
    if (depth > kDeepestParts)
      throw GrammarError("expected references and allOf that end, got ones that do not");
    if (schema.is_boolean())
      return schema.get<bool>() ? std::vector<SchemaPart>(1) : std::vector<SchemaPart>();
    work_ += kWorkOfCall;
    std::vector<SchemaPart> parts = {own_part(schema)};
    limit(parts);
    if (const auto target = schema.find("$ref"); target != schema.end())
      combine(parts, of(*referenced(root_, target->get_ref<const std::string&>()), depth + 1));
    if (const auto all = schema.find("allOf"); all != schema.end()) {
      for (const Json& one : *all) combine(parts, of(one, depth + 1));
    }
    for (const char* key : {"anyOf", "oneOf"}) {
      if (!schema.contains(key)) continue;
      std::vector<SchemaPart> branches;
      for (const Json& branch : schema[key]) {
        append(branches, of(branch, depth + 1));
        limit(branches);
      }
      combine(parts, branches);
    }
    if (const auto nullable = schema.find("nullable"); nullable != schema.end() && *nullable == Json(true)) {
      parts.emplace_back();
      parts.back().types = kNullType;
      parts.back().typed = true;
    }
    return parts;
  }

 private:
  void limit(const std::vector<SchemaPart>& parts) {
    if (!parts.empty()) work_ += parts.back().bytes;
    if (parts.size() > kMostParts || work_ > kMostWork)
      throw GrammarError("expected at most " + std::to_string(kMostParts) +
                         " combinations of alternatives, got more");
  }
  void combine(std::vector<SchemaPart>& parts, const std::vector<SchemaPart>& others) {
    std::vector<SchemaPart> combined;
    for (const SchemaPart& part : parts) {
      for (const SchemaPart& other : others) {
        combined.push_back(merged(part, other));
        limit(combined);
        if (combined.back().allowed() == 0) combined.pop_back();
      }
    }
    parts = std::move(combined);
  }

  const Json& root_;
  std::size_t& work_;
};

}  // namespace

unsigned types_named(std::string_view name) {
  constexpr std::pair<std::string_view, unsigned> kNames[] = {{"array", kArrayType},
                                                              {"boolean", kBooleanType},
                                                              {"integer", kIntegerType},
                                                              {"null", kNullType},
                                                              {"number", kIntegerType | kFractionType},
                                                              {"object", kObjectType},
                                                              {"string", kStringType}};
  for (const auto& [known, types] : kNames) {
    if (known == name) return types;
  }
  return 0;
}

unsigned type_of(const Json& value) {
  if (value.is_null()) return kNullType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_number_integer()) return kIntegerType;
  if (value.is_number() && value.get<double>() == std::floor(value.get<double>())) return kIntegerType;
  if (value.is_number()) return kFractionType;
  if (value.is_string()) return kStringType;
  return value.is_array() ? kArrayType : kObjectType;
}

unsigned types_of_keywords(const Json& schema) {
  if (schema.contains("type")) return types_in(schema["type"]);
  const unsigned types = mentioned_types(schema);
  return types != 0 ? types : kAllTypes;
}

std::vector<SchemaPart> parts_of(const Json& root, const Json& schema, std::size_t& work) {
  return Parts(root, work).of(schema, 0);
}

Json without_annotations(const Json& schema) {
  if (!schema.is_object()) return schema;
  Json result = Json::object();
  for (const auto& [key, value] : schema.items()) {
    if (!is_annotation(key)) result[key] = value;
  }
  return result;
}

Json both_schemas(const Json& one, const Json& other) {
  Json all = Json::array();
  for (const Json* given : {&one, &other}) {
    const Json schema = without_annotations(*given);
    if (schema == Json(true) || schema == Json::object()) continue;
    const bool is_list = schema.is_object() && schema.size() == 1 && schema.contains("allOf");
    for (const Json& part : is_list ? schema["allOf"] : Json::array({schema})) {
      if (std::find(all.begin(), all.end(), part) == all.end()) all.push_back(part);
    }
  }
  if (all.empty()) return true;
  if (all.size() == 1) return all[0];
  return Json{{"allOf", all}};
}

}  // namespace heed::grammar
