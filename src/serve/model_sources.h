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

  /// Is told of a model that is opened again (`failure` is empty), and of one that cannot be opened.
  using Tell = std::function<void(const std::string& name, const std::string& failure)>;

  /// Those that can be opened; the others are told. Throws the Error of the first where none can, and one for
  /// steering vectors that fit no model.
  ServedModels open(const Tell& tell) const;
  /// Those of `now` (of open(), or of this) whose files are as they were, and new ones in the place of
  /// others. One that cannot be opened stays as it is, or away. Both are told.
  ServedModels open_changed(const ServedModels& now, const Tell& tell) const;
};

}  // namespace heed::serve
