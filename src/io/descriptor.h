// What the file sources share: an open descriptor that closes itself, the system's errors as heed::Error, and
// the temporary names.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace heed::io {

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  /// Gives the descriptor to the caller, who closes it.
  int release();

 private:
  int value_;
};

/// `PATH: FAILURE: Permission denied`, e.g. "cannot be removed"; adds the free space when the disk is full.
[[noreturn]] void throw_system_error(const std::filesystem::path& path, std::string_view failure, int error);

/// open(2), repeated when interrupted; -1 and errno on failure.
int open_descriptor(const std::filesystem::path& path, int flags, unsigned mode = 0);

/// fsync(2) of an open file or folder; file systems that cannot sync this kind of thing are no error.
void sync_descriptor(int descriptor, const std::filesystem::path& path);
/// Opens, syncs and closes a file or folder.
void sync_path(const std::filesystem::path& path);

/// Where the files beside `target` live ("." for a bare name).
std::filesystem::path folder_of(const std::filesystem::path& target);
/// A name beside `target` that was never given out before by this process: `TARGET.tmp-PID-N`.
std::filesystem::path temporary_beside(const std::filesystem::path& target);
/// Whether a file name ends as temporary_beside() makes it.
bool is_temporary_name(std::string_view name);
/// Locks an entry that was just made under a temporary name; false when a cleaning process was faster and the
/// entry is gone.
bool lock_temporary(int descriptor);
/// Removes the temporaries in `folder` whose names begin with `prefix` and that nobody holds locked; returns
/// how many.
std::size_t remove_stale(const std::filesystem::path& folder, std::string_view prefix);
/// Those that temporary_beside() named for `target`.
void remove_stale_temporaries_of(const std::filesystem::path& target);

}  // namespace heed::io
