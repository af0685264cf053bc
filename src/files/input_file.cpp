#include "files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/text_lines.h"
#include "heed/error.h"

namespace heed {
namespace {

[[noreturn]] void throw_unreadable(const std::filesystem::path& path, int error,
                                   const std::filesystem::path& shown) {
  if (error == ENOTDIR) {
    throw Error(shown_name(shown) + ": not found (a part of the path is a file, not a directory)");
  }
  if (error != ENOENT) {
    throw Error(shown_name(shown) + ": cannot be read: " + std::generic_category().message(error));
  }
  std::error_code no_link;
  const std::filesystem::path target = std::filesystem::read_symlink(path, no_link);
  throw Error(
      shown_name(shown) + ": not found " +
      (no_link ? "(check the path)" : "(a symbolic link to " + target.string() + ", which does not exist)"));
}

[[noreturn]] void throw_irregular(const std::filesystem::path& path, mode_t mode) {
  const char* kind = S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
  throw Error(shown_name(path) + ": expected a regular file, got " + kind + " (save it to a file first)");
}

int open_for_reading(const std::filesystem::path& path, int flags) {
  int descriptor;
  do {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | flags);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

}  // namespace

std::string shown_name(const std::filesystem::path& path) {
  return path == kStandardInput ? "standard input" : path.string();
}

InputFile::InputFile(const std::filesystem::path& path, Accept accept, const std::filesystem::path& shown)
    : shown_(shown.empty() ? path : shown) {
  if (path.empty()) throw Error("\"\" is not a file name (give the path of a file)");
  struct stat status {};
  descriptor_ = open_for_reading(path, accept == Accept::regular ? O_NONBLOCK : 0);
  if (descriptor_ < 0) {
    const int error = errno;
    if (::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode))
      throw_irregular(shown_, status.st_mode);
    throw_unreadable(path, error, shown_);
  }
  const bool known = ::fstat(descriptor_, &status) == 0;
  const int error = errno;
  regular_ = S_ISREG(status.st_mode);
  if (known && (regular_ || (accept == Accept::streams && !S_ISDIR(status.st_mode)))) {
    bytes_ = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
    return;
  }
  ::close(descriptor_);
  if (!known) throw_unreadable(path, error, shown_);
  if (S_ISDIR(status.st_mode)) throw Error(shown_name(shown_) + ": expected a file, got a directory");
  throw_irregular(shown_, status.st_mode);
}

InputFile::~InputFile() { ::close(descriptor_); }

std::string InputFile::read(std::size_t limit) const {
  const auto refuse = [&] {
    throw Error(shown_name(shown_) + ": expected a file of at most " + std::to_string(limit) +
                " bytes, got a longer one");
  };
  if (regular_ && bytes_ > limit) refuse();
  constexpr std::size_t kStep = 1 << 16;
  std::string content;
  std::size_t used = 0;
  // One byte more than the reported size, so that the read that finds the end needs no larger buffer.
  content.resize(regular_ ? static_cast<std::size_t>(bytes_) + 1 : kStep);
  for (;;) {
    const ssize_t got = ::read(descriptor_, content.data() + used, content.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_unreadable(shown_, errno, shown_);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    if (used > limit) refuse();
    if (used == content.size()) content.resize(used + std::max(used / 2, kStep));
  }
  content.resize(used);
  drop_byte_order_mark(content);
  return content;
}

std::string read_regular_file(const std::filesystem::path& path, std::size_t limit) {
  return InputFile(path, InputFile::Accept::regular).read(limit);
}

bool has_entry(const std::filesystem::path& path, const std::filesystem::path& shown) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw_unreadable(path, errno, shown.empty() ? path : shown);
}

}  // namespace heed
