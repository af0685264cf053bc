// The file `complete` of a folder. It is written last and lists length and checksum of every other file.
#pragma once

#include <filesystem>
#include <string>

namespace heed::files {

inline constexpr const char* kManifest = "complete";

/// Returns the content for the file `complete` of `folder`.
std::string manifest_of(const std::filesystem::path& folder);

}  // namespace heed::files
