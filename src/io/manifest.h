// The file `complete` of a folder: written last, with length and checksum of every file that was there
// before.
#pragma once

#include <filesystem>
#include <string>

namespace heed::io {

inline constexpr const char* kManifest = "complete";

/// What the file `complete` of `folder` is to hold.
std::string manifest_of(const std::filesystem::path& folder);

}  // namespace heed::io
