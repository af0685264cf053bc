// Reads JSON files, with errors that name the file.
#pragma once

#include <filesystem>

#include "core/json.h"

namespace heed {

/// The rules of tokenizer files.
inline constexpr JsonRules kTokenizerJson{JsonNumbers::two_roundings, true};

/// Reads the JSON object of a configuration file. Throws Error if the file is malformed or not an object.
Json read_json_object(const std::filesystem::path& path);

}  // namespace heed
