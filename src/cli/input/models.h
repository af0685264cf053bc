// The model of the command line: where it is found, how it is opened, and what is said where a command does
// not run it. And the recipes of training.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "heed/dtype.h"
#include "heed/files/model_files.h"
#include "heed/models/model.h"
#include "heed/open/loaded_model.h"
#include "heed/train/recipe.h"

namespace heed::cli {

/// The name of the shipped translation model.
inline constexpr const char* kDefaultTranslator = "en-fr";

/// A model as the command line names it.
struct ModelChoice {
  std::string name;
  std::vector<std::string> adapters = {};  // DIR, or DIR=WEIGHT
  std::vector<std::string> steering = {};  // FILE, or FILE=STRENGTH
  std::string steered_layers = {};         // as TapRange; empty: all
};

/// How the weights are held and multiplied: --dtype and --activations, whose default is f32 in commands that
/// do not have the option.
struct WeightArguments {
  std::string dtype = "f32", activations = "f32";
  DType type() const { return dtype == "bf16" ? DType::bf16 : DType::f32; }
};

/// The model that the command line names, read, with a waiting line meanwhile. Throws UsageError for an empty
/// name, and Error if one is not found or cannot be read. `head`: LoadOptions::head.
LoadedModel open_model(const ModelChoice& choice, const Globals& globals, const WeightArguments& weights = {},
                       std::optional<bool> head = {});
/// What that line says.
std::string opening(const ModelChoice& choice);
/// What the command line says besides the name.
LoadOptions load_options(const ModelChoice& choice, const WeightArguments& weights = {});
/// Warns of what the files say and heed does not follow.
void warn_of_settings(const LoadedModel& model, const Globals& globals);
/// Throws Error "WHERE: a gpt2 decoder cannot translate (use heed generate)".
[[noreturn]] void refuse(const LoadedModel& model, Task task);
/// Refuses models with another main task than `task`, or one of `others`, and warns of its settings.
void require_task(const LoadedModel& model, Task task, const Globals& globals,
                  const std::vector<Task>& others = {});
/// The same of the model that it opens, an encoder with its head.
LoadedModel open_model_to(Task task, const ModelChoice& choice, const WeightArguments& weights,
                          const Globals& globals, const std::vector<Task>& others = {});

/// Throws UsageError for an empty name.
void require_name(const std::string& name);
/// Where the model or the adapter of that name is. Throws as open_model().
std::filesystem::path path_of_model(const std::string& name);

/// Sets a key of a recipe, "SECTION.KEY=VALUE". Throws UsageError.
void set_in_recipe(Recipe& recipe, const std::string& assignment);
/// Returns the file of a recipe: the path itself, or a name, with or without .toml, among the recipes that
/// are installed with heed. A folder of that name is passed over: it is often the output. Throws Error, with
/// the names of those, if it is neither.
std::filesystem::path locate_recipe(const std::filesystem::path& recipe);

/// Returns a model's name for titles: that of its directory where a path was given.
std::string title_of(const ModelChoice& choice);

/// Unless `finite`, warns once a run that what a model computed is not, and names the first weight that is
/// not.
void warn_of_non_finite(const Model& model, bool finite, const Globals& globals);

}  // namespace heed::cli
