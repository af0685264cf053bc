// One writer for a folder: a lock that the kernel releases when the process that holds it ends, however it
// ends.
#pragma once

#include <filesystem>

namespace heed {

/// Holds the file `lock` in a folder locked (flock(2)) as long as it lives; the file names the process and
/// the machine, and is removed in the end. A killed process leaves the file without the lock, which keeps
/// nobody out. On NFS the lock holds between machines where the server supports locks (NFSv4 does); on a file
/// system without locks nothing is locked.
class FolderLock {
 public:
  /// Throws Error, naming the holder, when the folder is locked by anyone, this process included, or when
  /// nothing can be written there.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Throws Error when the folder's name no longer stands for the folder that was locked: it was renamed or
  /// removed.
  void check() const;

 private:
  std::filesystem::path folder_;
  int directory_ = -1;
  int file_ = -1;
};

}  // namespace heed
