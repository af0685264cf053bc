// The files that a path of a recipe names.
#pragma once

#include <filesystem>
#include <vector>

namespace heed::data {

/// The file, or all files of a folder and the folders in it, in the order of their names; those whose names
/// begin with a dot are left out. Throws Error if the folder has none.
std::vector<std::filesystem::path> input_files(const std::filesystem::path& path);

}  // namespace heed::data
