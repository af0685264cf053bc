// Finds the directory of a model by its name, as the command and load() do.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/models/adapter.h"

namespace HEED_API heed {

/// Returns the folders of installed models, in the order in which names are looked up:
/// - those of $HEED_MODELS, separated by ':';
/// - share/heed/models of the prefix in whose bin/ the program is; for a program in the folder where heed was
///   built, models/ of its source tree;
/// - those of heed/models in $XDG_DATA_HOME (~/.local/share) and $XDG_DATA_DIRS (/usr/local/share and
///   /usr/share) that exist.
std::vector<std::filesystem::path> model_folders();

/// Returns the directory that a name refers to: a directory itself; else NAME in one of model_folders(); else
/// the snapshot of the repository NAME (`owner/name`, `name`, or `owner/name@revision`; default revision:
/// main) in the Hugging Face cache. Throws Error saying where it looked and what to run, and for a file (or a
/// folder of nothing but files) of another format what that is.
std::filesystem::path find_model(const std::string& name);
/// The same with these folders and the cache `hub`.
std::filesystem::path find_model(const std::string& name, const std::vector<std::filesystem::path>& folders,
                                 const std::filesystem::path& hub);

/// Returns the adapter of that name. Throws Error if it is not found, or is no adapter.
AdapterSource find_adapter(const std::string& name, double weight = 1.0);

/// Where a model is.
struct LocatedModel {
  std::filesystem::path directory;
  std::vector<AdapterSource> adapters = {};
};

/// find_model() for a model or an adapter alone, of which it finds the base as well: the adapter is then in
/// `adapters`.
LocatedModel locate_model(const std::string& name);

}  // namespace heed
