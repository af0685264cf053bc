// Selects which files of a repository are downloaded.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hub/repository.h"

namespace heed::hub {

struct Patterns {
  std::vector<std::string> include;  // empty: the files that heed reads
  std::vector<std::string> exclude;
};

/// Returns true if a shell pattern matches: * (also matches slashes), ? and [a-z], as in Python's fnmatch. A
/// pattern that ends with a slash matches the content of the folder.
bool matches(const std::string& pattern, const std::string& name);

/// Returns the files to download, except those that are only named by an index of weights. Without include
/// patterns: the configuration, the tokenizer, the weights in safetensors, and the same in the folders of
/// sentence-transformers' modules. Throws Error if no file is left and, without include patterns, if the
/// repository has no config.json or no safetensors.
std::vector<std::string> files_to_download(const Repository& repository, const Patterns& patterns);

/// Returns the weights files that an index adds. `index` is the downloaded model.safetensors.index.json with
/// the name `name` in the repository. Throws Error if the repository lacks one of them.
std::vector<std::string> shards_to_download(const Repository& repository, const Patterns& patterns,
                                            const std::string& name, const std::filesystem::path& index);

/// Returns the indexes of weights among the selected files; none if include patterns name all files
/// explicitly.
std::vector<std::string> indexes_among(const std::vector<std::string>& files, const Patterns& patterns);

}  // namespace heed::hub
