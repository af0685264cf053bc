// Locates models.
#include "cli/input/models.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "cli/options/option_values.h"
#include "cli/options/tap_options.h"
#include "cli/terminal/terminal.h"
#include "core/edit_distance.h"
#include "core/strings.h"
#include "heed/train/checkpoint.h"
#include "models/non_finite.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

// NAME, or NAME=NUMBER; a file or directory of the whole name wins.
struct WeightedName {
  std::string name;
  double weight = 1.0;
};
WeightedName weighted_name(const std::string& text, const char* option, const char* form) {
  std::error_code error;
  const std::size_t equals = text.rfind('=');
  if (equals == text.npos || fs::exists(text, error)) return {text};
  WeightedName result{text.substr(0, equals)};
  const std::string number = text.substr(equals + 1);
  const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), result.weight);
  if (failure != std::errc() || end != number.data() + number.size() || !std::isfinite(result.weight))
    throw UsageError(std::string(option) + ": expected " + form + " with a number, got " + text);
  return result;
}

AdapterSource adapter_named(const std::string& text) {
  const auto [name, weight] = weighted_name(text, "--adapter", "DIR or DIR=WEIGHT");
  if (name.empty()) throw UsageError("--adapter: expected a directory, got an empty text");
  refuse_unfinished_run(find_model(name));
  return find_adapter(name, weight);
}

SteeringSource steering_named(const std::string& text, const std::string& layers) {
  const auto [name, strength] = weighted_name(text, "--steer", "FILE or FILE=STRENGTH");
  if (name.empty()) throw UsageError("--steer: expected a file, got an empty text");
  require_file("--steer", name);
  return {name, strength, layers.empty() ? TapRange{} : parse_positions(layers, "--steer-layers")};
}

void require_name(const std::string& name) {
  if (name.empty())
    throw UsageError("--model: expected a directory, a GGUF file or the name of a model, got an empty text");
}

}  // namespace

// Throws Error for an interrupted run, which has checkpoints but no final model yet.
void refuse_unfinished_run(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory / "checkpoints", error)) return;
  if (fs::exists(directory / "model.safetensors", error) || has_adapter(directory)) return;
  const std::vector<std::int64_t> steps = checkpoint_steps(directory);
  if (steps.empty()) return;
  throw Error(directory.string() + ": no final model yet (use " +
              checkpoint_path(directory, steps.back()).string() +
              ", or continue with heed train RECIPE --output " + directory.string() + " --resume)");
}

fs::path locate_model(const std::string& name) {
  require_name(name);
  const fs::path found = find_model(name);
  refuse_unfinished_run(found);
  return found;
}

LocatedModel locate_model(const ModelChoice& choice) {
  require_name(choice.name);
  LocatedModel located = heed::locate_model(choice.name);
  refuse_unfinished_run(located.directory);
  for (const std::string& text : choice.adapters) located.adapters.push_back(adapter_named(text));
  for (const std::string& text : choice.steering)
    located.steering.push_back(steering_named(text, choice.steered_layers));
  return located;
}

void warn_of_unknown_settings(const Model& model, const fs::path& directory, const Globals& globals) {
  const std::vector<std::string> names = model.unknown_settings();
  if (globals.quiet || names.empty()) return;
  warn((directory / "config.json").string() + ": " + joined(names) + (names.size() == 1 ? " is" : " are") +
       " not supported and ignored");
}

void warn_of_non_finite(const Model& model, bool finite, const Globals& globals) {
  static bool warned = false;
  if (finite || warned || globals.quiet) return;
  warned = true;
  const std::optional<std::string> weight = first_non_finite_weight(model);
  warn("outputs are not finite: " +
       (weight ? "weight " + *weight : "numbers overflow, all weights are finite") +
       " (heed doctor tells more)");
}

fs::path locate_recipe(const fs::path& recipe) {
  std::error_code error;
  if (fs::exists(recipe, error) || recipe.has_parent_path()) return recipe;
  std::vector<std::string> names;
  for (const fs::path& folder : folders_of_heed("recipes")) {
    for (const fs::path& name : {recipe, fs::path(recipe.string() + ".toml")}) {
      if (fs::is_regular_file(folder / name, error)) return folder / name;
    }
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  const std::string near = nearest_word(recipe.stem().string(), names);
  const std::string list = joined(names);
  throw Error(recipe.string() + ": not found (" +
              (!near.empty()   ? "did you mean the recipe " + near + "?"
               : names.empty() ? "give the path of a TOML file"
                               : "give the path of a TOML file, or a recipe of heed: " + list) +
              ")");
}

std::string title_of(const ModelChoice& choice) {
  std::error_code error;
  if (!fs::is_directory(choice.name, error)) return choice.name;
  const fs::path directory = fs::canonical(choice.name, error);
  return error ? choice.name : directory.filename().string();
}

WeightOptions weight_options(const WeightArguments& arguments) {
  return {arguments.dtype == "bf16" ? DType::bf16 : DType::f32, arguments.activations == "int8"};
}

}  // namespace heed::cli
