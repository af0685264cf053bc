// Small files of a model that has a single file, such as a GGUF file: texts made of what that file says, kept
// in memory and read under FILE/NAME as they would be in a directory.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

namespace heed {

/// Makes read_regular_file() and has_entry() find the texts under FILE/NAME, until the process ends or they
/// are replaced by others. Several threads may call it at once.
void keep_documents(const std::filesystem::path& file, const std::map<std::string, std::string>& documents);

/// The text kept under that path, or null.
std::shared_ptr<const std::string> kept_document(const std::filesystem::path& path);

}  // namespace heed
