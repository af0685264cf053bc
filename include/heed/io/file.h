// Files as heed reads and writes them: reading with a limit, mapping, and writing so that a name always
// stands for a whole file or a whole folder. What is being written lives beside its target under
// `NAME.tmp-PID-N`, locked, until it is safely on disk; what a killed process leaves behind is recognised by
// the missing lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace heed {

/// The whole content of a text the user named: a file, a pipe or a device. Throws Error when it is missing,
/// unreadable, a directory, or longer than `limit` bytes. Opening a pipe waits for its writer.
std::string read_file(const std::filesystem::path& path, std::size_t limit = std::size_t{1} << 30);

/// Replaces a file by `content` in one step (see AtomicFile).
void write_file(const std::filesystem::path& path, std::string_view content);

/// A file in memory, read as it is touched. The bytes may be written to: changed pages become private copies
/// and never reach the file. Throws Error when the file is missing, unreadable or not a regular file. The
/// file must not be shortened while it is mapped (files replaced by renaming, as heed does, are safe).
class MappedFile {
 public:
  static std::shared_ptr<MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// Gives back the memory of the pages that lie wholly in these bytes of a mapping. They must be unwritten;
  /// the next access reads the file again.
  static void forget(std::byte* data, std::size_t bytes);

 private:
  MappedFile() = default;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A file that appears under its name only when commit() has put all of it on disk: until then, and after any
/// failure, the name keeps what it had. What a killed process left of the same file is removed. Targets that
/// are no regular files (a pipe, /dev/stdout) are written to directly. Every error of the system (full disk,
/// no permission) is thrown as Error.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();  ///< removes what was written unless commit() succeeded
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  std::uint64_t bytes_written() const { return bytes_written_; }
  /// Puts the file on disk, gives it its name, and puts the name on disk. Nothing may be written afterwards.
  void commit();

 private:
  void discard();

  std::filesystem::path target_;     // as the caller wrote it, for messages
  std::filesystem::path resolved_;   // where the file goes: symbolic links followed
  std::filesystem::path temporary_;  // empty when the target is written to directly
  int descriptor_ = -1;
  std::uint64_t bytes_written_ = 0;
};

/// A folder that appears under its name only when commit() has put every file in it on disk and has written
/// the file `complete`, with the checksums of the others, last. An existing folder of that name is swapped
/// out in the same step and removed afterwards. Parent folders are made.
class AtomicDirectory {
 public:
  explicit AtomicDirectory(const std::filesystem::path& target);
  ~AtomicDirectory();  ///< removes what was written unless commit() succeeded
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  /// Where to put the files until commit().
  const std::filesystem::path& path() const { return temporary_; }
  void commit();
  /// Instead of commit(): puts the files on disk and moves them, each in one step, into `folder`, which
  /// exists; the file `last` comes last, when the others are there for good.
  void move_files(const std::filesystem::path& folder, const std::string& last);

 private:
  std::filesystem::path target_;
  std::filesystem::path resolved_;
  std::filesystem::path temporary_;
  int lock_ = -1;
};

/// Whether `directory` was completed by AtomicDirectory::commit().
bool is_complete(const std::filesystem::path& directory);

/// Reads every file that is listed in the file `complete` of `directory`. Throws Error, naming the file,
/// where its bytes are not those that were written. Lists without checksums, of earlier versions, pass.
void verify_directory(const std::filesystem::path& directory);

/// Removes a folder so that it is never seen half removed. A missing folder is no error.
void remove_directory(const std::filesystem::path& directory);

/// Removes what killed processes left behind in `folder` (`*.tmp-PID-N` that nobody holds locked) and returns
/// how many entries those were. A missing folder has none.
std::size_t remove_stale_temporaries(const std::filesystem::path& folder);

}  // namespace heed
