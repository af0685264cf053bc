// SchemaPart: what a schema without references and alternatives says, with those that apply at the same time
// merged into one.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "grammar/char_automaton.h"
#include "heed/grammar/grammar.h"

namespace heed::grammar {

/// Types as a set of bits; that of number includes integer's.
inline constexpr unsigned kNullType = 1, kBooleanType = 2, kIntegerType = 4, kFractionType = 8,
                          kStringType = 16, kArrayType = 32, kObjectType = 64, kAllTypes = 127;
/// Returns the types of a name, or 0 if it is none.
unsigned types_named(std::string_view name);
unsigned type_of(const Json& value);
/// Returns the types that `type` allows or, without it, those that the other keywords of a schema are about;
/// without these, all.
unsigned types_of_keywords(const Json& schema);

struct SchemaPart {
  unsigned types = kAllTypes;               ///< by `type`
  bool typed = false;                       ///< whether there is one
  unsigned mentioned = 0;                   ///< what other keywords are about
  std::optional<std::vector<Json>> values;  ///< of enum and const
  std::vector<NumberBound> lower, upper;
  std::int64_t least_length = 0, least_items = 0;
  std::optional<std::int64_t> most_length, most_items;
  std::vector<std::string> patterns, formats;
  std::vector<Json> prefix;
  std::optional<Json> items;
  std::vector<std::pair<std::string, Json>> properties;
  std::vector<std::string> required;
  std::optional<Json> additional;
  std::size_t bytes = 0;  ///< of the schemas that were merged, as text

  unsigned allowed() const { return typed || mentioned == 0 ? types : mentioned & types; }
};

/// Returns parts of which a value has to match one to match the schema. `root` is what references are within.
/// Throws GrammarError if there are too many, if references have no end, or if `work`, which counts bytes
/// that are merged, becomes too large.
std::vector<SchemaPart> parts_of(const Json& root, const Json& schema, std::size_t& work);

/// Returns a schema without annotations.
Json without_annotations(const Json& schema);
/// Returns a schema that matches what both match.
Json both_schemas(const Json& one, const Json& other);

// The check of a JSON Schema before rules are made of it: every keyword is known, and of the right type.

/// Throws Error `WHERE: POINTER: expected X, got Y` for the first keyword that has a wrong value or, if
/// refused, is not supported. The parts that references name are checked too. What is not enforced is added
/// to `notes`, and the patterns among it to `ignored`.
void check_schema(const Json& root, const std::string& where, UnsupportedKeywords unsupported,
                  std::vector<std::string>& notes, std::set<std::string>& ignored);

/// Returns what a reference within the document (`#`, `#/$defs/a`) names, or null if there is nothing.
const Json* referenced(const Json& root, std::string_view reference);
/// Returns the JSON pointer of a member.
std::string pointer_to(const std::string& pointer, std::string_view key);
/// Whether a keyword says nothing about which values a schema matches.
bool is_annotation(std::string_view key);
/// Whether a value that is written by one of two branches of oneOf cannot match the other, as far as that can
/// be told within two million `steps`, which are counted. `root` has been checked.
bool exclude_each_other(const Json& root, const Json& one, const Json& other, std::size_t& steps);

}  // namespace heed::grammar
