// Where the settings of a model's preprocessing of images or sound stand.
#pragma once

#include <filesystem>
#include <string>

#include "heed/io/json.h"

namespace heed {

/// Returns the object `key` of processor_config.json in a model's directory, else preprocessor_config.json.
/// Throws Error, which says what the file `tells`, if neither exists.
Config load_processor_config(const std::filesystem::path& directory, const char* key,
                             const std::string& tells);

}  // namespace heed
