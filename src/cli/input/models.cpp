// Locates and opens models.
#include "cli/input/models.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "cli/options/option_values.h"
#include "cli/options/tap_options.h"
#include "cli/terminal/processes.h"
#include "cli/terminal/terminal.h"
#include "core/edit_distance.h"
#include "core/strings.h"
#include "heed/models/find_model.h"
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

NamedAdapter adapter_named(const std::string& text) {
  const auto [name, weight] = weighted_name(text, "--adapter", "DIR or DIR=WEIGHT");
  if (name.empty()) throw UsageError("--adapter: expected a directory, got an empty text");
  return {name, weight};
}

SteeringFile steering_named(const std::string& text, const std::string& layers) {
  const auto [name, strength] = weighted_name(text, "--steer", "FILE or FILE=STRENGTH");
  if (name.empty()) throw UsageError("--steer: expected a file, got an empty text");
  require_file("--steer", name);
  return {name, strength, layers.empty() ? TapRange{} : parse_positions(layers, "--steer-layers")};
}

}  // namespace

fs::path path_of_model(const std::string& name) {
  require_name(name);
  return model_path(name);
}

void require_name(const std::string& name) {
  if (name.empty())
    throw UsageError("--model: expected a directory, a GGUF file or the name of a model, got an empty text");
}

LoadOptions load_options(const ModelChoice& choice, const WeightArguments& weights) {
  LoadOptions options;
  options.dtype = weights.type();
  options.activations = weights.activations == "auto"   ? Activations::automatic
                        : weights.activations == "int8" ? Activations::int8
                                                        : Activations::f32;
  for (const std::string& text : choice.adapters) options.adapters.push_back(adapter_named(text));
  for (const std::string& text : choice.steering)
    options.steering.push_back(steering_named(text, choice.steered_layers));
  return options;
}

LoadedModel open_model(const ModelChoice& choice, const Globals& globals, const WeightArguments& weights,
                       std::optional<bool> head) {
  require_name(choice.name);
  LoadOptions options = load_options(choice, weights);
  options.head = head;
  const Waiting waiting(opening(choice), globals.quiet || !processes().is_first());
  LoadedModel opened = heed::open_model(choice.name, options);
  static_cast<void>(opened.model());
  return opened;
}

std::string opening(const ModelChoice& choice) { return "opening " + choice.name; }

void refuse(const LoadedModel& model, Task task) {
  throw Error(model.directory() + ": " + model.kind() + " cannot " + verb(task) + " (use heed " +
              commands_for(model.model()).front() + ")");
}

void require_task(const LoadedModel& model, Task task, const Globals& globals,
                  const std::vector<Task>& others) {
  const std::vector<Task> tasks = model.tasks();
  const auto among_others = [&](Task one) {
    return std::find(others.begin(), others.end(), one) != others.end();
  };
  if (tasks.empty() || (tasks.front() != task && !among_others(tasks.front()))) {
    const bool images = among_others(Task::classify_images) && model.model().input().is_image();
    refuse(model, images ? Task::classify_images : task);
  }
  warn_of_settings(model, globals);
}

LoadedModel open_model_to(Task task, const ModelChoice& choice, const WeightArguments& weights,
                          const Globals& globals, const std::vector<Task>& others) {
  LoadedModel model = open_model(choice, globals, weights, true);
  require_task(model, task, globals, others);
  return model;
}

void warn_of_settings(const LoadedModel& model, const Globals& globals) {
  if (globals.quiet) return;
  for (const std::string& line : model.warnings()) warn(line);
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
  const bool is_path = recipe.has_parent_path();
  if (is_path ? fs::exists(recipe, error) : fs::is_regular_file(recipe, error)) return recipe;
  std::vector<std::string> names;
  for (const fs::path& folder : folders_of_heed("recipes")) {
    for (const fs::path& name : {recipe, fs::path(recipe.string() + ".toml")}) {
      if (!is_path && fs::is_regular_file(folder / name, error)) return folder / name;
    }
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());  // beside an installed heed
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
