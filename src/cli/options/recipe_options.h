// --set of the commands that take the keys of a recipe.
#pragma once

#include <string>

#include "heed/train/recipe.h"

namespace heed::cli {

/// Sets a key of a recipe, "SECTION.KEY=VALUE". Throws UsageError.
void set_in_recipe(Recipe& recipe, const std::string& assignment);

}  // namespace heed::cli
