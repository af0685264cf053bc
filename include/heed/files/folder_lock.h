// FolderLock: a single writer per folder. The kernel releases the lock when the holding process ends, in
// whatever way.
#pragma once

#include <filesystem>

namespace heed {

/// Keeps the file `lock` in a folder locked (flock(2)) for its lifetime. The file contains the process id and
/// host name; the destructor removes it. A killed process leaves the file behind without a lock, which blocks
/// nobody. On NFS the lock also works between machines if the server supports locks (NFSv4 does). On a file
/// system without locks, nothing is locked.
/// Threads: one at a time.
class FolderLock {
 public:
  /// Throws Error naming the holder if the folder is already locked, also by this process, or if nothing can
  /// be written there.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Throws Error if the folder's name no longer refers to the locked folder because it was renamed or
  /// removed.
  void check() const;

 private:
  std::filesystem::path folder_;
  int directory_ = -1;
  int file_ = -1;
};

}  // namespace heed
