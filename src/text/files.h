// Files written whole, and JSON files read, with errors that name them.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace heed {

/// Writes `content`, replacing what was there. Throws Error when it cannot be written in full.
void write_text_file(const std::filesystem::path& path, std::string_view content);

/// JSON text as a document, whose objects keep all their members in order, repeated ones too. Throws Error,
/// starting with `where`, when it is malformed or nested more than 100 deep. Floating numbers are read as the
/// tokenizers library reads them, which is not always the nearest double: scores that differ in their last
/// bit make another choice among equals.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& where);

/// The JSON object in a configuration file. Throws Error when it is malformed or no object.
nlohmann::ordered_json read_json_object(const std::filesystem::path& path);

}  // namespace heed
