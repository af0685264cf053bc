// File access: reading with a limit, mapping, and writing such that a name always refers to a complete file
// or folder. Until it is safely on disk, a target is written to a locked temporary `NAME.tmp-PID-N` beside
// it. A temporary without a lock is left over from a killed process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "heed/export.h"

namespace HEED_API heed {

/// Returns the whole content of a text that the user named: a file, a pipe or a device. Throws Error if it is
/// missing, unreadable, a directory, or longer than `limit` bytes. Opening a pipe waits for its writer.
std::string read_file(const std::filesystem::path& path, std::size_t limit = std::size_t{1} << 30);

/// Replaces a file by `content` atomically (see AtomicFile).
void write_file(const std::filesystem::path& path, std::string_view content);

/// A memory-mapped file, read on access. The bytes may be written to: changed pages become private copies and
/// never reach the file. Replacing the file by rename, as heed does, is safe. Writing to it changes what is
/// read, and reading beyond the end to which it was cut ends the process with SIGBUS.
/// Threads: several may read one object at once.
class MappedFile {
 public:
  /// Throws Error, which calls the file `shown` (empty: as the path), if it is missing, unreadable or not a
  /// regular file.
  static std::shared_ptr<MappedFile> open(const std::filesystem::path& path,
                                          const std::filesystem::path& shown = {});
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// Throws Error if the file was written to or cut since it was opened. Reads its size and time only.
  void require_unchanged() const;
  /// Releases the memory of the pages that lie wholly within these bytes of a mapping. They must be
  /// unmodified; the next access reads the file again.
  static void forget(std::byte* data, std::size_t bytes);

 private:
  MappedFile() = default;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  int descriptor_ = -1;  // of a file with bytes
  std::int64_t modified_ns_ = 0;
  std::filesystem::path shown_;
};

/// A file that appears under its name only when commit() has put all of it on disk. Until then, and after any
/// failure, the previous file is unchanged. Temporaries that killed processes left for the same file are
/// removed. Targets that are not regular files (a pipe, /dev/stdout) are written to directly. Every system
/// error (full disk, no permission) is thrown as Error.
/// Threads: one at a time.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();  ///< removes what was written unless commit() succeeded
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  /// Syncs the file to disk, renames it to its name, and syncs the folder. Nothing may be written afterward.
  void commit();

 private:
  void discard();

  std::filesystem::path target_;     // as the caller gave it, for messages
  std::filesystem::path resolved_;   // with symbolic links followed
  std::filesystem::path temporary_;  // empty if the target is written to directly
  int descriptor_ = -1;
  std::uint64_t bytes_written_ = 0;
};

/// A folder that appears under its name only when commit() has put every file in it on disk and, last, the
/// file `complete` with their checksums. An existing folder of that name is swapped out in the same step and
/// removed afterward. Creates parent folders.
/// Threads: one at a time.
class AtomicDirectory {
 public:
  explicit AtomicDirectory(const std::filesystem::path& target);
  ~AtomicDirectory();  ///< removes what was written unless commit() succeeded
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  /// Returns the folder for the files until commit().
  const std::filesystem::path& path() const { return temporary_; }
  void commit();
  /// Instead of commit(): syncs the files to disk and moves them one by one, each atomically, into the
  /// existing `folder`, in the place of those of the same names. The file `last` is moved when the others are
  /// on disk.
  void move_files(const std::filesystem::path& folder, const std::string& last);

 private:
  std::filesystem::path target_;
  std::filesystem::path resolved_;
  std::filesystem::path temporary_;
  int lock_ = -1;
};

/// Returns true if AtomicDirectory::commit() completed `directory`.
bool is_complete(const std::filesystem::path& directory);

/// Reads every file that is listed in the file `complete` of `directory`. Throws Error naming the file if its
/// bytes differ from those that were written. Lists without checksums, from earlier versions, pass.
void verify_directory(const std::filesystem::path& directory);

/// Removes a folder such that it is never visible half removed. A missing folder is not an error.
void remove_directory(const std::filesystem::path& directory);

/// Removes the temporaries that killed processes left in `folder` (unlocked `*.tmp-PID-N`) and returns their
/// number. For a missing folder, returns 0.
std::size_t remove_stale_temporaries(const std::filesystem::path& folder);

}  // namespace heed
