// Where the settings of a model's preprocessing of images or sound stand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/files/model_files.h"
#include "heed/io/json.h"

namespace heed {

/// Returns the object `key` of processor_config.json of a model, else preprocessor_config.json.
/// Throws Error, which says what the file `tells`, if neither exists.
Config load_processor_config(const ModelFiles& model, const char* key, const std::string& tells);

/// An integer of a range. Throws Error for another.
std::int64_t integer_within(const Config& json, std::string_view name, std::int64_t least, std::int64_t most,
                            std::int64_t default_value);

/// The one of transformers' classes (each with its `name`, and the `model_types` of models whose files name
/// none) that `name` names, or else, without a name, the one for the model; null: there is none.
template <class Class>
const Class* find_processor_class(const std::vector<Class>& classes, const std::optional<std::string>& name,
                                  const ModelFiles& model) {
  std::string family;
  if (!name && model.has("config.json")) family = Config::load(model, "config.json").string("model_type", "");
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const Class& known) {
    return name ? *name == known.name
                : std::count(known.model_types.begin(), known.model_types.end(), family) > 0;
  });
  return found == classes.end() ? nullptr : &*found;
}

}  // namespace heed
