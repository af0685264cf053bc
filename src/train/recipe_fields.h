// The single list of recipe keys: where each value is stored, which values are valid, and whether a resumed
// run may change it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "heed/train/recipe.h"

namespace heed {

struct RecipeField {
  using Target = std::variant<bool*, std::int64_t*, double*, std::string*, std::filesystem::path*,
                              std::array<double, 2>*, std::vector<std::string>*, ModuleTargets*>;
  std::string key;  // section.name
  Target target;
  double min = 0;
  double max = 0;
  std::vector<std::string> choices;  // of text; empty: any
  bool may_change = false;           // when a run is resumed
};

std::vector<RecipeField> recipe_fields(Recipe& recipe);

}  // namespace heed
