// The check of a JSON Schema before rules are made of it: every keyword is known, and of the right type.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"

namespace heed::grammar {

/// Throws Error `WHERE: POINTER: expected X, got Y` for the first keyword that is not supported, or has a
/// wrong value. The parts that references name are checked too.
void check_schema(const Json& root, const std::string& where);

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
