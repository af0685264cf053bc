// heed pull: downloads a model from the hub into the cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/http.h"
#include "hub/repository.h"

namespace heed::hub {

// Selects which files of a repository are downloaded.

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

struct PullProgress {
  std::uint64_t done = 0;      // bytes present, including those of earlier attempts
  std::uint64_t total = 0;     // bytes of all files known so far
  std::uint64_t received = 0;  // bytes that came over the network
  std::size_t files = 0;
};

struct PullOptions {
  std::string model;  // owner/model
  std::string revision = "main";
  Patterns patterns;
  const std::atomic<bool>* stop = nullptr;  // if set, pull() soon throws Canceled
  // Called by one thread at a time.
  std::function<void(const PullProgress&)> on_progress;
  std::function<void(const std::string&)> on_message;
};

struct PullResult {
  std::string commit;
  std::filesystem::path path;  // the snapshot
  std::vector<std::string> files;
  std::uint64_t bytes = 0;     // of all files
  std::uint64_t received = 0;  // bytes of them that came over the network in this call
};

/// Downloads the files of the model that are not in the cache yet. With Settings::offline, finds the model in
/// the cache or throws. Throws Error for every failure, as one line with what to do, and Canceled. What has
/// been downloaded is kept, and the next call resumes.
PullResult pull(const Settings& settings, const PullOptions& options);

}  // namespace heed::hub
