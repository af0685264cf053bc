// Writes into the cache of heed/io/hub_cache.h, into which other processes (and Python's huggingface_hub) may
// write at the same time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hub/repository.h"

namespace heed::hub {

/// An exclusive lock on a file for the lifetime of the object: flock(2), as in Python's filelock.
class FileLock {
 public:
  /// Waits for the lock. Calls `on_wait` once if another process holds it. Throws Canceled and Error.
  FileLock(const std::filesystem::path& file, const StopSignal& stop, const std::function<void()>& on_wait);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// The folders of one repository at one commit.
class Cache {
 public:
  Cache(const std::filesystem::path& hub, const Repository& repository);

  std::filesystem::path snapshot() const { return folder_ / "snapshots" / commit_; }
  std::filesystem::path file(const std::string& name) const { return snapshot() / name; }
  std::filesystem::path blob(const std::string& etag) const { return folder_ / "blobs" / etag; }
  std::filesystem::path partial(const std::string& etag) const {
    return folder_ / "blobs" / (etag + ".incomplete");
  }
  std::filesystem::path lock(const std::string& etag) const { return locks_ / (etag + ".lock"); }

  /// Creates the folders for downloads.
  void make_folders() const;
  /// Throws Error if the disk lacks space for the missing parts of these files.
  void require_space(const std::vector<RemoteFile>& files) const;
  /// Makes the file's name in the snapshot a link to the blob.
  void link(const RemoteFile& file) const;
  /// Records the commit of a branch or tag. A commit as revision needs no record.
  void record_revision(const std::string& revision) const;

 private:
  std::filesystem::path folder_, locks_;
  std::string commit_;
};

/// "1.5 GB"
std::string size_text(std::uint64_t bytes);

}  // namespace heed::hub
