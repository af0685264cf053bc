#include "data/input_files.h"

#include <algorithm>

#include "heed/error.h"

namespace heed::data {

namespace fs = std::filesystem;

std::vector<fs::path> input_files(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(path), end; entry != end; ++entry) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (hidden && entry->is_directory()) entry.disable_recursion_pending();
    if (!hidden && entry->is_regular_file()) files.push_back(entry->path());
  }
  if (files.empty()) throw Error(path.string() + ": expected a folder with text files, got none in it");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace heed::data
