// The cache of Hugging Face models on this machine, as Python's huggingface_hub lays it out:
//   HUB/models--owner--name/refs/REVISION        the commit that a branch or tag names
//   HUB/models--owner--name/snapshots/COMMIT/    the files of a commit, links to
//   HUB/models--owner--name/blobs/ETAG           the contents
// Here it is only read.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace heed {

/// Where Hugging Face tools keep their files: $HF_HOME, else huggingface in $XDG_CACHE_HOME or ~/.cache.
std::filesystem::path hub_home();
/// The cache of models: $HF_HUB_CACHE, else $HUGGINGFACE_HUB_CACHE, else `hub` in hub_home().
std::filesystem::path hub_cache();
/// The value of an environment variable that holds a path, with ~ and $NAME replaced; empty when it is unset.
std::string path_in_environment(const char* name);

/// Whether a text can name a repository: `owner/name` or `name`, of letters, digits, `.`, `_` and `-`, as the
/// hub allows them. Such a name is safe as the name of a folder.
bool is_repository_name(std::string_view name);
/// Whether a text can name a branch, a tag or a commit, and is safe as a path under `refs`.
bool is_revision(std::string_view revision);
/// Whether a text is a whole commit hash: 40 (or 64) hexadecimal digits in lower case.
bool is_commit(std::string_view text);

/// A repository and a revision of it, written `owner/name` or `owner/name@revision`.
struct RepositoryRevision {
  std::string repository;
  std::string revision;  // empty when none is named
};
RepositoryRevision split_revision(std::string_view text);

/// HUB/models--owner--name.
std::filesystem::path repository_folder(const std::filesystem::path& hub, std::string_view repository);

/// The snapshot that `revision` (default: main) of a repository names; an empty path when the cache knows
/// nothing of the repository. In a cache without any refs, the newest complete snapshot. Throws Error, with
/// the command that mends it, when the revision is not in the cache or its snapshot is incomplete.
std::filesystem::path find_snapshot(const std::filesystem::path& hub, const std::string& repository,
                                    const std::string& revision);

/// What is missing in a snapshot: config.json (unless there are tokenizer files), or a weights file that
/// model.safetensors.index.json names; empty when nothing is.
std::string missing_in_snapshot(const std::filesystem::path& snapshot);

}  // namespace heed
