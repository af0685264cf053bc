// The folder that a command writes to: MadeFolder creates it, FolderLock admits a single writer, and
// NewModelFolder is both for a folder that becomes a model. The kernel releases the lock when the holding
// process ends, in whatever way.
#pragma once

#include <filesystem>

#include "heed/files/file.h"

namespace heed {

/// Creates a folder, so that a failure is reported before the work begins, and removes it again if it was
/// created here and is still empty at the end.
/// Threads: one at a time.
class MadeFolder {
 public:
  /// Throws Error if the folder is missing and cannot be created.
  explicit MadeFolder(const std::filesystem::path& path);
  ~MadeFolder();
  MadeFolder(const MadeFolder&) = delete;
  MadeFolder& operator=(const MadeFolder&) = delete;

 private:
  std::filesystem::path path_;
  bool made_ = false;
};

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

/// A folder that is no model yet, and becomes one when commit() has put all files of the model in it, its
/// config.json last: what a killed process leaves is no model, and the same command can go on there. Keeps
/// others out meanwhile.
/// Threads: one at a time.
class NewModelFolder {
 public:
  /// Throws Error if the folder cannot be made, is locked, or has a model.
  explicit NewModelFolder(const std::filesystem::path& output);
  /// Throws Error if there is a model already: to be asked before long work, whose result is written later.
  static void refuse_model(const std::filesystem::path& output);
  /// Where the files are written until commit().
  const std::filesystem::path& path() const { return staging_.path(); }
  void commit();

 private:
  std::filesystem::path output_;
  MadeFolder made_;
  FolderLock lock_;
  AtomicDirectory staging_;
};

}  // namespace heed
