#include "files/folder_lock.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "files/descriptor.h"
#include "heed/error.h"

namespace heed {
namespace {

constexpr const char* kName = "lock";
constexpr const char* kModelConfig = "config.json";
constexpr int kAttempts = 100;

std::string this_process() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return "process " + std::to_string(::getpid()) + " on " + host.data();
}

// Returns the holder from the lock file, or "another process" if the holder has not written it yet or the
// file is not heed's.
std::string holder(int file) {
  std::array<char, 400> text{};
  const ssize_t read = ::pread(file, text.data(), text.size(), 0);
  std::string line(text.data(), static_cast<std::size_t>(std::max<ssize_t>(read, 0)));
  line = line.substr(0, line.find('\n'));
  const bool printable = std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return printable && line.starts_with("process ") ? line : "another process";
}

bool same_entry(int opened, const struct stat& found) {
  struct stat status {};
  return ::fstat(opened, &status) == 0 && status.st_dev == found.st_dev && status.st_ino == found.st_ino;
}

// Returns the current path of an open folder, or an empty path if it has been removed.
std::string locked_path(int directory) {
  std::error_code error;
  const std::string link = "/proc/self/fd/" + std::to_string(directory);
  const std::string place = std::filesystem::read_symlink(link, error).string();
  return error || place.ends_with(" (deleted)") ? "" : place;
}

}  // namespace

MadeFolder::MadeFolder(const std::filesystem::path& path) : path_(path) {
  std::error_code error;
  made_ = std::filesystem::create_directories(path, error);
  if (error) files::throw_system_error(path, "the folder cannot be created", error.value());
}

MadeFolder::~MadeFolder() {
  std::error_code error;
  if (made_) std::filesystem::remove(path_, error);  // fails unless it is empty
}

FolderLock::FolderLock(const std::filesystem::path& folder) : folder_(folder) {
  files::Descriptor directory(files::open_descriptor(folder, O_RDONLY | O_DIRECTORY));
  if (directory.get() < 0) files::throw_system_error(folder, "cannot be opened", errno);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    files::Descriptor file(
        ::openat(directory.get(), kName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
    if (file.get() < 0) files::throw_system_error(folder / kName, "cannot be created", errno);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw Error(folder.string() + ": expected a folder that nobody else writes to, got one in use by " +
                  holder(file.get()) + " (wait until that has ended, or choose another folder)");
    }
    struct stat status {};  // an ending holder may have removed the opened file
    if (::fstatat(directory.get(), kName, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !same_entry(file.get(), status)) {
      continue;
    }
    const std::string text = this_process() + "\n";
    if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), text.data(), text.size(), 0) < 0) {
      files::throw_system_error(folder / kName, "cannot be written", errno);
    }
    directory_ = directory.release();
    file_ = file.release();
    return;
  }
  throw Error((folder / kName).string() + ": expected a file that stays, got one that others keep removing");
}

FolderLock::~FolderLock() {
  // Relative to the locked folder: its name may refer to another folder by now.
  ::unlinkat(directory_, kName, 0);
  ::close(file_);
  ::close(directory_);
}

void FolderLock::check() const {
  struct stat found {};
  if (::stat(folder_.c_str(), &found) == 0 && same_entry(directory_, found)) return;
  const std::string place = locked_path(directory_);
  throw Error(folder_.string() + ": expected the folder that was locked, got " +
              (place.empty() ? "none: it was removed" : "another place: it was moved to " + place) +
              " (nothing more is written)");
}

NewModelFolder::NewModelFolder(const std::filesystem::path& output)
    : output_(output), made_(output), lock_(output), staging_(output / "new") {
  refuse_model(output);
}

void NewModelFolder::refuse_model(const std::filesystem::path& output) {
  std::error_code error;
  if (std::filesystem::exists(output / kModelConfig, error))
    throw Error(output.string() + ": expected a folder without a model, got one (choose another --output)");
}

void NewModelFolder::commit() {
  lock_.check();
  staging_.move_files(output_, kModelConfig);
}

}  // namespace heed
