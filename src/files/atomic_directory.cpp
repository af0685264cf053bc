#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "files/descriptor.h"
#include "files/manifest.h"
#include "heed/error.h"
#include "heed/files/file.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
constexpr int kDirectoryAttempts = 100;

// "out/" and "out" are the same folder, but a suffix can only be added to the second.
fs::path without_trailing_slash(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

void sync_tree(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      sync_tree(entry.path());
    } else if (entry.is_regular_file()) {
      files::sync_path(entry.path());
    }
  }
  files::sync_path(folder);
}

// `target` is the folder's name in messages.
void sync_all(const fs::path& target, const fs::path& folder) {
  try {
    sync_tree(folder);
  } catch (const fs::filesystem_error& error) {
    files::throw_system_error(target, "its files cannot be flushed to disk", error.code().value());
  }
}

void swap_folders(const fs::path& target, const fs::path& made, const fs::path& existing) {
  if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, existing.c_str(), RENAME_EXCHANGE) == 0) return;
  files::throw_system_error(target, "cannot be replaced in one step (remove it first)", errno);
}

}  // namespace

AtomicDirectory::AtomicDirectory(const fs::path& target)
    : target_(target), resolved_(without_trailing_slash(target)) {
  std::error_code error;
  if (fs::exists(resolved_, error) && !fs::is_directory(resolved_, error)) {
    throw Error(target.string() +
                ": expected a folder to write, got a file (remove it or choose another name)");
  }
  if (fs::is_symlink(resolved_, error)) resolved_ = fs::canonical(resolved_, error);
  fs::create_directories(resolved_.parent_path(), error);
  if (error) files::throw_system_error(target, "its parent folder cannot be created", error.value());
  files::remove_stale_temporaries_of(resolved_);
  for (int attempt = 0; attempt < kDirectoryAttempts; ++attempt) {
    temporary_ = files::temporary_beside(resolved_);
    if (::mkdir(temporary_.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;  // left by a killed process with the same id
      files::throw_system_error(target, "cannot be created", errno);
    }
    files::Descriptor opened(files::open_descriptor(temporary_, O_RDONLY | O_DIRECTORY));
    if (opened.get() >= 0 && files::lock_temporary(opened.get())) {
      lock_ = opened.release();
      return;
    }
  }
  throw Error(target.string() + ": no free temporary name beside it (remove *.tmp-* there)");
}

AtomicDirectory::~AtomicDirectory() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void AtomicDirectory::commit() {
  HEED_ASSERT(!temporary_.empty(), "committed twice");
  sync_all(target_, temporary_);
  write_file(temporary_ / files::kManifest, files::manifest_of(temporary_));
  std::error_code error;
  const bool replaces = fs::exists(resolved_, error);
  if (replaces) {
    swap_folders(target_, temporary_, resolved_);
  } else if (::rename(temporary_.c_str(), resolved_.c_str()) != 0) {
    files::throw_system_error(target_, "cannot be renamed into place", errno);
  }
  const fs::path old = replaces ? temporary_ : fs::path();
  temporary_.clear();
  files::sync_path(resolved_.parent_path());
  // The new folder is in place. Whatever of the old one cannot be removed is removed as stale later.
  if (replaces) fs::remove_all(old, error);
}

void AtomicDirectory::move_files(const fs::path& folder, const std::string& last) {
  HEED_ASSERT(!temporary_.empty(), "moved after commit()");
  sync_all(target_, temporary_);
  std::vector<fs::path> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(temporary_)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end(), [&](const fs::path& a, const fs::path& b) {
    return (a == last) != (b == last) ? b == last : a < b;
  });
  for (const fs::path& name : names) {
    if (name == last) files::sync_path(folder);  // the other names must be on disk before this one
    if (::rename((temporary_ / name).c_str(), (folder / name).c_str()) != 0) {
      files::throw_system_error(folder / name, "cannot be renamed into place", errno);
    }
  }
  files::sync_path(folder);
}

bool is_complete(const fs::path& directory) {
  std::error_code error;
  return fs::is_regular_file(directory / files::kManifest, error);
}

void remove_directory(const fs::path& directory) {
  const fs::path folder = without_trailing_slash(directory);
  const fs::path aside = files::temporary_beside(folder);
  if (::rename(folder.c_str(), aside.c_str()) != 0) {
    if (errno == ENOENT) return;
    files::throw_system_error(directory, "cannot be removed", errno);
  }
  files::sync_path(folder.parent_path());
  std::error_code error;
  fs::remove_all(aside, error);
  if (error) files::throw_system_error(directory, "cannot be removed", error.value());
}

std::size_t remove_stale_temporaries(const fs::path& folder) { return files::remove_stale(folder, ""); }

}  // namespace heed
