#include "cli/options/recipe_options.h"

#include "cli/cli.h"
#include "heed/error.h"

namespace heed::cli {

void set_in_recipe(Recipe& recipe, const std::string& assignment) {
  try {
    apply_override(recipe, assignment);
  } catch (const Error& error) {
    constexpr std::string_view kWhere = "override: ";
    const std::string message = error.what();
    throw UsageError("--set: " + (message.starts_with(kWhere) ? message.substr(kWhere.size()) : message));
  }
}

}  // namespace heed::cli
