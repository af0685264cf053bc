// The folders of the Hugging Face cache: blobs, snapshots, references and locks.
#include "hub/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <limits>
#include <set>
#include <thread>

#include "files/descriptor.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/hub_cache.h"

namespace heed::hub {
namespace {

namespace fs = std::filesystem;

void make_directories(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) files::throw_system_error(folder, "cannot be created", error.value());
}

void refuse_link(const fs::path& folder) {
  std::error_code error;
  if (fs::is_symlink(folder, error))
    throw Error(folder.string() + ": expected a folder, got a symbolic link (remove it)");
}

// Returns true if the name still refers to the open file. Otherwise somebody deleted the lock file, and two
// processes would hold different locks.
bool is_still_named(int descriptor, const fs::path& file) {
  struct stat open {
  }, named{};
  return ::fstat(descriptor, &open) == 0 && ::stat(file.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

// Returns true if the file is locked, or if the file system does not support locks: contents are checked by
// their hash in any case.
bool try_lock(int descriptor, const fs::path& file) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK) return true;
  if (errno == EWOULDBLOCK || errno == EINTR) return false;
  files::throw_system_error(file, "cannot be locked", errno);
}

}  // namespace

FileLock::FileLock(const fs::path& file, const StopSignal& stop, const std::function<void()>& on_wait) {
  for (bool waiting = false;;) {
    // Group-writable, as Python's locks are.
    files::Descriptor opened(files::open_descriptor(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0664));
    if (opened.get() < 0) files::throw_system_error(file, "cannot be opened", errno);
    if (try_lock(opened.get(), file)) {
      if (!is_still_named(opened.get(), file)) continue;
      descriptor_ = opened.release();
      return;
    }
    if (!waiting) on_wait();
    waiting = true;
    if (stop.is_set()) throw Canceled();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

FileLock::~FileLock() { ::close(descriptor_); }

Cache::Cache(const fs::path& hub, const Repository& repository)
    : folder_(repository_folder(hub, repository.name)), commit_(repository.commit) {
  locks_ = hub / ".locks" / folder_.filename();
}

void Cache::make_folders() const {
  for (const fs::path& folder : {folder_ / "blobs", folder_ / "refs", snapshot(), locks_}) {
    refuse_link(folder);
    make_directories(folder);
  }
}

void Cache::require_space(const std::vector<RemoteFile>& files) const {
  std::uint64_t needed = 0;
  std::error_code error;
  std::set<std::string> counted;
  for (const RemoteFile& file : files) {
    if (fs::exists(blob(file.etag), error) || !counted.insert(file.etag).second) continue;
    const auto there = fs::file_size(partial(file.etag), error);
    const std::uint64_t rest = file.size - (error ? 0 : std::min<std::uint64_t>(there, file.size));
    needed += std::min(rest, std::numeric_limits<std::uint64_t>::max() - needed);
  }
  const fs::space_info space = fs::space(folder_ / "blobs", error);
  if (error || space.available >= needed) return;
  throw Error((folder_ / "blobs").string() + ": expected " + size_text(needed) + " of free space, got " +
              size_text(space.available) + " (free some, or set HF_HUB_CACHE to a folder on another disk)");
}

void Cache::link(const RemoteFile& remote) const {
  const fs::path name = file(remote.name), folder = name.parent_path();
  // Through a link, a file or a folder would be made outside the snapshot.
  for (fs::path parent = folder; parent != snapshot(); parent = parent.parent_path()) refuse_link(parent);
  make_directories(folder);
  std::error_code error;
  const fs::path target = fs::relative(folder_ / "blobs", folder, error) / remote.etag;
  if (error) files::throw_system_error(name, "cannot be linked to the download", error.value());
  for (int attempt = 0;; ++attempt) {
    if (fs::read_symlink(name, error) == target && !error) return;
    fs::remove(name, error);
    fs::create_symlink(target, name, error);
    if (!error) return;
    // Another process may have created it in the meantime.
    constexpr int kMostAttempts = 3;
    if (error != std::errc::file_exists || attempt == kMostAttempts)
      files::throw_system_error(name, "cannot be linked to the download", error.value());
  }
}

void Cache::record_revision(const std::string& revision) const {
  if (revision == commit_) return;
  const fs::path ref = folder_ / "refs" / revision;
  std::error_code error;
  if (fs::is_symlink(ref, error)) fs::remove(ref, error);  // else the commit would be written where it points
  if (fs::is_regular_file(ref, error) && read_file(ref) == commit_) return;
  for (fs::path parent = ref.parent_path(); parent != folder_; parent = parent.parent_path())
    refuse_link(parent);
  make_directories(ref.parent_path());
  write_file(ref, commit_);
}

std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace heed::hub
