#include "files/descriptor.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "heed/error.h"

namespace heed::files {
namespace {

constexpr std::string_view kMark = ".tmp-";

std::string free_space(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::space_info space = std::filesystem::space(folder_of(path), ignored);
  if (ignored) return " (make room on the disk)";
  return " (" + std::to_string(space.available >> 20) + " MiB free; make room on the disk)";
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

int Descriptor::release() {
  const int value = value_;
  value_ = -1;
  return value;
}

void throw_system_error(const std::filesystem::path& path, std::string_view failure, int error) {
  std::string message =
      path.string() + ": " + std::string(failure) + ": " + std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT) message += free_space(path);
  if (error == EFBIG) message += " (the size of files is limited: see ulimit -f)";
  throw Error(message);
}

int open_descriptor(const std::filesystem::path& path, int flags, unsigned mode) {
  int descriptor;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

void sync_descriptor(int descriptor, const std::filesystem::path& path) {
  int result;
  do {
    result = ::fsync(descriptor);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS) {
    throw_system_error(path, "cannot be flushed to disk", errno);
  }
}

void sync_path(const std::filesystem::path& path) {
  const Descriptor opened(open_descriptor(path, O_RDONLY));
  if (opened.get() < 0) throw_system_error(path, "cannot be flushed to disk", errno);
  sync_descriptor(opened.get(), path);
}

std::filesystem::path folder_of(const std::filesystem::path& target) {
  const std::filesystem::path parent = target.parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

std::filesystem::path temporary_beside(const std::filesystem::path& target) {
  static std::atomic<unsigned> next{0};
  std::filesystem::path path = target;
  path += std::string(kMark) + std::to_string(::getpid()) + "-" + std::to_string(next++);
  return path;
}

bool is_temporary_name(std::string_view name) {
  const std::size_t mark = name.rfind(kMark);
  if (mark == std::string_view::npos) return false;
  const std::string_view numbers = name.substr(mark + kMark.size());
  const std::size_t dash = numbers.find('-');
  return dash != std::string_view::npos && all_digits(numbers.substr(0, dash)) &&
         all_digits(numbers.substr(dash + 1));
}

bool lock_temporary(int descriptor) {
  // A file system without locks is not an error: cleaning skips what it cannot lock.
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && status.st_nlink > 0;
}

std::size_t remove_stale(const std::filesystem::path& folder, std::string_view prefix) {
  std::error_code error;
  std::size_t removed = 0;
  std::filesystem::directory_iterator entries(folder, error);
  if (error) return 0;
  for (; entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::filesystem::path path = entries->path();
    const std::string name = path.filename().string();
    if (!name.starts_with(prefix) || !is_temporary_name(name) || entries->is_symlink(error)) continue;
    if (!entries->is_regular_file(error) && !entries->is_directory(error)) continue;
    const Descriptor opened(open_descriptor(path, O_RDONLY | O_NONBLOCK));
    if (opened.get() < 0 || ::flock(opened.get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::filesystem::remove_all(path, error);
    if (!error) ++removed;
  }
  return removed;
}

void remove_stale_temporaries_of(const std::filesystem::path& target) {
  remove_stale(folder_of(target), target.filename().string().append(kMark));
}

}  // namespace heed::files
