// The single list of recipe keys: where each value is stored, which values are valid, which tasks use it, and
// whether a resumed run may change it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "heed/train/recipe.h"

namespace heed {

struct RecipeField {
  using Target = std::variant<bool*, std::int64_t*, double*, std::string*, std::filesystem::path*,
                              std::array<double, 2>*, std::vector<std::string>*, std::vector<std::int64_t>*,
                              ModuleTargets*, ClassWeights*, Interval*>;
  std::string key;  // section.name
  std::string doc;  // what it sets, as Markdown
  Target target;
  double min = 0;
  double max = 0;
  std::vector<std::string> choices;  // of text; empty: any
  bool may_change = false;           // when a run is resumed
  std::vector<std::string> tasks;    // that use it; empty: all
  std::vector<std::string> formats;  // values of data.format that use it; empty: all
};

std::vector<RecipeField> recipe_fields(Recipe& recipe);

/// " (did you mean KEY?)" with the key that `wrong` was probably meant to be: the one that other tools call
/// so, or else the nearest; empty if none is near. A wrong section and a misspelled name are equally likely.
std::string nearest_key_hint(const std::vector<RecipeField>& fields, std::string_view wrong);

/// Throws Error for a key that the recipe gives and its task, or its data.format, does not use.
void refuse_unused_keys(const Recipe& recipe);

/// Throws Error for an override of [model] or [tokenizer], in a run that starts from a model.
void refuse_overrides_of_model(const Recipe& recipe);

}  // namespace heed
