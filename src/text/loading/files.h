// Reads JSON files, with errors that name the file.
#pragma once

#include "core/json.h"
#include "heed/files/model_files.h"

namespace heed {

/// The rules of tokenizer files.
inline constexpr JsonRules kTokenizerJson{JsonNumbers::two_roundings, true};

/// Reads the JSON object of a configuration file of a model. Throws Error if the file is malformed or not an
/// object.
Json read_json_object(const ModelFiles& from, std::string_view name);

}  // namespace heed
