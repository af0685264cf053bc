// Which files of a repository are downloaded.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hub/repository.h"

namespace heed::hub {

struct Patterns {
  std::vector<std::string> include;  // empty: what heed reads
  std::vector<std::string> exclude;
};

/// Whether a shell pattern matches: * (slashes too), ? and [a-z], as Python's fnmatch; a pattern that ends
/// with a slash matches what lies in the folder.
bool matches(const std::string& pattern, const std::string& name);

/// The files to download, without those that only an index of weights names. Without include patterns: the
/// configuration, the tokenizer, the weights in safetensors, and the same in the folders of
/// sentence-transformers' modules. Throws Error when that leaves nothing, and, without include patterns, when
/// the repository has no config.json or no safetensors.
std::vector<std::string> files_to_download(const Repository& repository, const Patterns& patterns);

/// The files of weights that `index`, a downloaded model.safetensors.index.json named `name` in the
/// repository, adds to them. Throws Error when the repository lacks one.
std::vector<std::string> shards_to_download(const Repository& repository, const Patterns& patterns,
                                            const std::string& name, const std::filesystem::path& index);

/// The indexes of weights among the files chosen, unless include patterns name every file themselves.
std::vector<std::string> indexes_among(const std::vector<std::string>& files, const Patterns& patterns);

}  // namespace heed::hub
