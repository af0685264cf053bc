// Locates models.
#include "cli/models.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "cli/terminal.h"
#include "core/edit_distance.h"
#include "heed/io/hub_cache.h"
#include "heed/models/registry.h"
#include "heed/train/checkpoint.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The folders of this name that come with heed: "models" or "recipes".
std::vector<fs::path> folders_of_heed(const char* name) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  std::vector<fs::path> folders{program.parent_path().parent_path() / "share/heed" / name};
  // An installed command does not use the source tree it was built from.
  if (fs::equivalent(program.parent_path(), HEED_BUILD_DIRECTORY, error))
    folders.push_back(fs::path(HEED_SOURCE) / name);
  return folders;
}

std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders;
  std::istringstream list(environment("HEED_MODELS"));
  for (std::string folder; std::getline(list, folder, ':');) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  for (const fs::path& folder : folders_of_heed("models")) folders.push_back(folder);
  return folders;
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Appends the repositories of the Hugging Face cache.
void add_cached_models(std::vector<KnownModel>& models) {
  constexpr std::string_view kFolder = "models--";
  for (const fs::path& entry : sorted_entries(hub_cache())) {
    std::string name = entry.filename().string();
    if (!name.starts_with(kFolder)) continue;
    name.erase(0, kFolder.size());
    if (const std::size_t slash = name.find("--"); slash != std::string::npos) name.replace(slash, 2, "/");
    try {
      const fs::path snapshot = find_snapshot(hub_cache(), name, "");
      if (!snapshot.empty()) models.push_back({name, snapshot});
    } catch (const Error&) {
      models.push_back({name, {}});
    }
  }
}

// Ends the message about a name that no model has: with the models that are here.
std::string with_known_models(std::string message) {
  constexpr std::size_t kMost = 6;
  std::string names;
  const std::vector<KnownModel> models = known_models();
  for (std::size_t i = 0; i < std::min(models.size(), kMost); ++i)
    names += (i == 0 ? "" : ", ") + models[i].name;
  if (models.empty() || !message.ends_with(")")) return message;
  message.pop_back();
  return message + "; here are " + names + (models.size() > kMost ? " and others" : "") +
         ": heed models lists them)";
}

fs::path find(const std::string& name) {
  std::error_code error;
  try {
    return find_model(name, model_folders(), hub_cache());
  } catch (const Error& failure) {
    const std::string message = failure.what();
    if (fs::exists(name, error) || message.find(": not found (") == std::string::npos) throw;
    std::vector<std::string> names;
    for (const KnownModel& model : known_models()) names.push_back(model.name);
    const std::string near = nearest_word(name, names);
    throw Error(near.empty() ? with_known_models(message)
                             : "model " + name + ": not found (did you mean " + near + "?)");
  }
}

// DIR, or DIR=WEIGHT; a directory of the whole name wins.
AdapterSource adapter_named(const std::string& text) {
  std::error_code error;
  const std::size_t equals = text.rfind('=');
  AdapterSource source{text};
  if (equals != text.npos && !fs::exists(text, error)) {
    const std::string number = text.substr(equals + 1);
    const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), source.weight);
    if (failure != std::errc() || end != number.data() + number.size())
      throw UsageError("--adapter: expected DIR or DIR=WEIGHT with a number, got " + text);
    source.directory = text.substr(0, equals);
  }
  if (source.directory.empty()) throw UsageError("--adapter: expected a directory, got an empty text");
  source.directory = locate_model(source.directory.string());
  if (!has_adapter(source.directory))
    throw Error(source.directory.string() +
                ": expected an adapter, got a directory without adapter_config.json (--model takes models)");
  return source;
}

// The model that an adapter was trained on.
fs::path base_of(const fs::path& adapter) {
  const std::string base = base_of_adapter(adapter);
  const std::string hint = " (" + adapter.string() +
                           " is a LoRA adapter of it: give --model BASE --adapter " + adapter.string() + ")";
  if (base.empty()) throw Error(adapter.string() + ": base_model_name_or_path: not set" + hint);
  try {
    return find(base);
  } catch (const Error& error) {
    throw Error(error.what() + hint);
  }
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
  if (name.empty())
    throw UsageError("--model: expected a directory or the name of a model, got an empty text");
  const fs::path found = find(name);
  refuse_unfinished_run(found);
  return found;
}

LocatedModel locate_model(const ModelChoice& choice) {
  LocatedModel located{locate_model(choice.name)};
  if (is_adapter(located.directory)) {
    located.adapters.push_back({located.directory});
    located.directory = base_of(located.directory);
  }
  for (const std::string& text : choice.adapters) located.adapters.push_back(adapter_named(text));
  return located;
}

void warn_of_unknown_settings(const Model& model, const fs::path& directory, const Globals& globals) {
  const std::vector<std::string> names = model.unknown_settings();
  if (globals.quiet || names.empty()) return;
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  warn((directory / "config.json").string() + ": " + list + (names.size() == 1 ? " is" : " are") +
       " not supported and ignored");
}

std::vector<KnownModel> known_models() {
  std::vector<KnownModel> models;
  std::error_code error;
  for (const fs::path& folder : model_folders()) {
    for (const fs::path& entry : sorted_entries(folder)) {
      const std::string name = entry.filename().string();
      const bool hidden = std::any_of(models.begin(), models.end(),
                                      [&](const KnownModel& model) { return model.name == name; });
      if (!hidden && fs::exists(entry / "config.json", error)) models.push_back({name, entry});
    }
  }
  add_cached_models(models);
  return models;
}

fs::path locate_recipe(const fs::path& recipe) {
  std::error_code error;
  if (fs::exists(recipe, error) || recipe.has_parent_path()) return recipe;
  std::vector<std::string> names;
  for (const fs::path& folder : folders_of_heed("recipes")) {
    for (const fs::path& name : {recipe, fs::path(recipe.string() + ".toml")}) {
      if (fs::is_regular_file(folder / name, error)) return folder / name;
    }
    for (const fs::path& entry : sorted_entries(folder)) {
      if (entry.extension() == ".toml") names.push_back(entry.stem().string());
    }
  }
  const std::string near = nearest_word(recipe.stem().string(), names);
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
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

DType weights_dtype(const std::string& name) {
  if (name == "f32") return DType::f32;
  if (name == "bf16") return DType::bf16;
  throw UsageError("--dtype: expected f32 or bf16, got " + name);
}

}  // namespace heed::cli
