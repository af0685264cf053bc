// Writes whole files and reads JSON files, with errors that name the file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/json.h"

namespace heed {

/// Writes `content` and replaces any previous file. Throws Error if it cannot be written in full.
void write_text_file(const std::filesystem::path& path, std::string_view content);

/// The rules of tokenizer files.
inline constexpr JsonRules kTokenizerJson{JsonNumbers::two_roundings, true};

/// Reads the JSON object of a configuration file. Throws Error if the file is malformed or not an object.
Json read_json_object(const std::filesystem::path& path);

}  // namespace heed
