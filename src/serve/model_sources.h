// Where served models come from: opens them, and those again whose files have changed since.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "serve/served_model.h"

namespace heed::serve {

struct ModelSource {
  std::string name;  ///< in requests
  std::string path;  ///< or a name, as heed::load() takes it
  std::vector<std::string> aliases = {};
  LoadOptions options = {};
};

/// The files of a model and of its adapters: names, sizes, times and places on the disk. Another text means
/// other files. Throws Error if there is no such model.
std::string state_of_files(const ModelSource& source);

struct ModelSources {
  std::vector<ModelSource> models;
  std::vector<std::pair<std::string, std::filesystem::path>> steering = {};  ///< by names: offer_steering()

  /// Throws Error for a model that cannot be opened, and steering vectors that fit none.
  ServedModels open() const;
  /// Those of `now` (of open(), or of this) whose files are as they were, and new ones in the place of
  /// others. One that cannot be opened stays as it is. Both are told: `failure` is empty for one that was
  /// opened.
  ServedModels open_changed(
      const ServedModels& now,
      const std::function<void(const std::string& name, const std::string& failure)>& tell) const;
};

}  // namespace heed::serve
