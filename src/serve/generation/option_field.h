// Fields of requests that are generation options: their texts and ranges are those of the one list of
// options.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "generate/option_fields.h"
#include "server/fields.h"

namespace heed::serve {

/// Passes the option of a name. `more` goes on with the text of the list; `rule` is a range of the server's
/// own.
template <class T>
void option_field(server::Fields& fields, std::string_view name, std::optional<T>& value,
                  std::string_view more = {}, const std::optional<server::FieldRule>& rule = {}) {
  const auto& list = generate::option_fields();
  const auto option = std::find_if(list.begin(), list.end(),
                                   [&](const generate::OptionField& one) { return one.name == name; });
  HEED_ASSERT(option != list.end(), "unknown option");
  const server::FieldRule own = {.least = option->range.min, .most = option->range.max};
  if (fields.reads() != nullptr) return fields(option->name, value, {}, rule.value_or(own));
  fields(option->name, value, std::string(option->help).append(more), rule.value_or(own));
}

}  // namespace heed::serve
