// Shared by the file sources: a file descriptor that closes itself, system errors as heed::Error, and
// temporary names.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace heed::files {

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  /// Transfers ownership of the descriptor to the caller.
  int release();

 private:
  int value_;
};

/// Throws `PATH: FAILURE: Permission denied`, where FAILURE is e.g. "cannot be removed". Adds the free space
/// if the disk is full.
[[noreturn]] void throw_system_error(const std::filesystem::path& path, std::string_view failure, int error);

/// open(2), repeated when interrupted. Returns -1 and sets errno on failure.
int open_descriptor(const std::filesystem::path& path, int flags, unsigned mode = 0);

/// fsync(2) of an open file or folder. A file system that cannot sync this kind of file is not an error.
void sync_descriptor(int descriptor, const std::filesystem::path& path);
/// Opens, syncs and closes a file or folder.
void sync_path(const std::filesystem::path& path);

/// Returns the folder that contains `target` ("." for a bare name).
std::filesystem::path folder_of(const std::filesystem::path& target);
/// Returns a name beside `target` that this process has not used before: `TARGET.tmp-PID-N`.
std::filesystem::path temporary_beside(const std::filesystem::path& target);
/// Returns true if a file name ends as temporary_beside() makes it.
bool is_temporary_name(std::string_view name);
/// Locks an entry that was just created under a temporary name. Returns false if a cleaning process has
/// already removed it.
bool lock_temporary(int descriptor);
/// Removes the unlocked temporaries in `folder` whose names begin with `prefix`. Returns their number.
std::size_t remove_stale(const std::filesystem::path& folder, std::string_view prefix);
/// Removes those that temporary_beside() named for `target`.
void remove_stale_temporaries_of(const std::filesystem::path& target);

}  // namespace heed::files
