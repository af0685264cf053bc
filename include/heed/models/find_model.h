// Finds the directory of a model by its name, as the command and load() do.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/files/model_files.h"
#include "heed/models/adapter.h"
#include "heed/models/steering.h"

namespace HEED_API heed {

/// Returns the folders `name` (models, recipes) that come with heed, in the order in which they are searched:
/// - PREFIX/share/heed/NAME for a program in PREFIX/bin; NAME of the source tree for a program in the build
///   folder; share/heed/NAME beside the library, where it exists;
/// - those of heed/NAME in $XDG_DATA_HOME (~/.local/share) and $XDG_DATA_DIRS (/usr/local/share and
///   /usr/share) that exist, then PREFIX/share/heed/NAME of the prefix that the library was built for.
///
std::vector<std::filesystem::path> folders_of_heed(const std::string& name);

/// Returns the folders of installed models: those of $HEED_MODELS, separated by ':', then
/// folders_of_heed("models").
std::vector<std::filesystem::path> model_folders();

/// A model that has a name.
struct KnownModel {
  std::string name;
  std::filesystem::path directory;  ///< empty: in the Hugging Face cache, but not complete
};
/// Returns the models that find_model() finds by name, in the order in which it looks for them.
std::vector<KnownModel> known_models();

/// Returns the directory that a name refers to: a directory or GGUF file itself; else NAME in one of
/// model_folders(); else the snapshot of the repository NAME (`owner/name`, `name`, or `owner/name@revision`;
/// default: main) in the Hugging Face cache. Throws Error that says where it looked and what to run. For a
/// file (or a folder of files) of another format, the Error names the format. Also throws Error for a
/// training run that is not finished.
std::filesystem::path find_model(const std::string& name);
/// The same with these folders and the cache `hub`.
std::filesystem::path find_model(const std::string& name, const std::vector<std::filesystem::path>& folders,
                                 const std::filesystem::path& hub);

/// The files of a model's directory or GGUF file. For a GGUF file, texts made from its metadata replace the
/// files that it lacks.
ModelFiles model_files(const std::filesystem::path& directory);

/// Returns the adapter of that name. Throws Error if it is not found, or is no adapter.
AdapterSource find_adapter(const std::string& name, double weight = 1.0);

/// The steps of the complete checkpoints of a training run, in increasing order, and the folder of one.
std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& run);
std::filesystem::path checkpoint_path(const std::filesystem::path& run, std::int64_t step);
/// Throws Error naming the last checkpoint if `directory` is a run that has no final model yet.
void refuse_unfinished_run(const std::filesystem::path& directory);

/// The location of a model, with its adapters and steering vectors.
struct LocatedModel {
  std::filesystem::path directory;
  std::vector<AdapterSource> adapters = {};
  std::vector<SteeringSource> steering = {};
};

/// find_model() for a model or an adapter. For an adapter, the result is its base model, with the adapter in
/// `adapters`.
LocatedModel locate_model(const std::string& name);

}  // namespace heed
