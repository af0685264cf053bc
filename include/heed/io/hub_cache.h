// The cache of Hugging Face models on this machine, in the layout of Python's huggingface_hub:
//   HUB/models--owner--name/refs/REVISION        the commit that a branch or tag names
//   HUB/models--owner--name/snapshots/COMMIT/    the files of a commit, links to
//   HUB/models--owner--name/blobs/ETAG           the contents
// These functions only read it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace heed {

/// Returns the folder of Hugging Face tools: $HF_HOME, or else huggingface in $XDG_CACHE_HOME or ~/.cache,
/// where ~ is $HOME, or else the home folder in the password database.
std::filesystem::path hub_home();
/// Returns the cache of models: $HF_HUB_CACHE, or else $HUGGINGFACE_HUB_CACHE, or else `hub` in hub_home().
std::filesystem::path hub_cache();
/// Returns the path in an environment variable, with ~ and $NAME replaced; empty if the variable is unset.
std::string path_in_environment(const char* name);

/// Returns true if a text is a valid repository name: `owner/name` or `name`, of letters, digits, `.`, `_`
/// and `-`, as on the hub. Such a name is safe as the name of a folder.
bool is_repository_name(std::string_view name);
/// Returns true if a text is a valid name of a branch, tag or commit, and safe as a path under `refs`.
bool is_revision(std::string_view revision);
/// Returns true if a text is a full commit hash: 40 (or 64) hexadecimal digits in lower case.
bool is_commit(std::string_view text);

/// A repository and a revision of it, written `owner/name` or `owner/name@revision`.
struct RepositoryRevision {
  std::string repository;
  std::string revision;  // empty if none is named
};
RepositoryRevision split_revision(std::string_view text);

/// Returns HUB/models--owner--name.
std::filesystem::path repository_folder(const std::filesystem::path& hub, std::string_view repository);

/// Returns the snapshot of a repository at `revision` (default: main), or an empty path if the repository is
/// not in the cache. If the cache has no refs, this is the newest complete snapshot. Throws Error, with the
/// command that fixes it, if the revision is not in the cache or its snapshot is incomplete.
std::filesystem::path find_snapshot(const std::filesystem::path& hub, const std::string& repository,
                                    const std::string& revision);

/// Returns what is missing in a snapshot, or an empty string: config.json (unless there are tokenizer files),
/// or a weights file that model.safetensors.index.json names.
std::string missing_in_snapshot(const std::filesystem::path& snapshot);

}  // namespace heed
