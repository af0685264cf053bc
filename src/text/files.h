// Writes whole files and reads JSON files, with errors that name the file.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace heed {

/// Writes `content` and replaces any previous file. Throws Error if it cannot be written in full.
void write_text_file(const std::filesystem::path& path, std::string_view content);

/// Parses JSON text to a document whose objects keep all members in order, including repeated ones. Throws
/// Error, starting with `where`, if the text is malformed or nested more than 100 deep. Floating-point
/// numbers are read as the tokenizers library reads them, which is not always the nearest double: scores that
/// differ in the last bit would resolve ties differently.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& where);

/// Reads the JSON object of a configuration file. Throws Error if the file is malformed or not an object.
nlohmann::ordered_json read_json_object(const std::filesystem::path& path);

}  // namespace heed
