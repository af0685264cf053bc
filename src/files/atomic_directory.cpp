// Atomic folders. The file `complete` in them is written last and lists length and checksum of every other
// file.
#include "heed/files/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <vector>

#include "files/checksum.h"
#include "files/descriptor.h"
#include "heed/error.h"

namespace heed {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kFirstLine =
    "Every file of this folder was written before this one. Bytes, CRC-32C, name:\n";
constexpr std::string_view kEarlierVersions = "Every file of this folder was written before this one.\n";
constexpr const char* kManifest = "complete";
constexpr std::size_t kLargestManifest = std::size_t{1} << 20;

std::string hexadecimal(std::uint32_t crc) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", static_cast<unsigned>(crc));
  return text.data();
}

struct Entry {
  files::FileSum sum;
  fs::path name;
};

// Parses "BYTES CRC NAME". Returns false for anything else.
bool parse(std::string_view line, Entry& entry) {
  const char* const end = line.data() + line.size();
  const auto bytes = std::from_chars(line.data(), end, entry.sum.bytes);
  if (bytes.ec != std::errc() || bytes.ptr == end || *bytes.ptr != ' ') return false;
  const auto crc = std::from_chars(bytes.ptr + 1, end, entry.sum.crc, 16);
  if (crc.ec != std::errc() || crc.ptr == end || *crc.ptr != ' ') return false;
  entry.name = std::string(crc.ptr + 1, end);
  return !entry.name.empty() && entry.name.is_relative() && *entry.name.begin() != ".." &&
         entry.name == entry.name.lexically_normal();
}

/// Returns the content for the file `complete` of `folder`.
std::string manifest_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const bool fits = entry.path().filename().string().find('\n') == std::string::npos;
    if (entry.is_regular_file() && !entry.is_symlink() && fits) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string text(kFirstLine);
  for (const fs::path& file : files) {
    const files::FileSum sum = files::sum_of_file(file);
    text += std::to_string(sum.bytes) + " " + hexadecimal(sum.crc) + " " +
            file.lexically_relative(folder).string() + "\n";
  }
  return text;
}

}  // namespace

void verify_directory(const fs::path& directory) {
  const fs::path manifest = directory / kManifest;
  const std::string text = read_file(manifest, kLargestManifest);
  if (text == kEarlierVersions) return;
  if (!text.starts_with(kFirstLine)) {
    throw Error(manifest.string() +
                ": expected a list of checksums, got something else (the file is damaged)");
  }
  std::size_t number = 1;
  for (std::size_t begin = kFirstLine.size(); begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    Entry entry;
    if (!parse(line, entry)) {
      throw Error(manifest.string() + ":" + std::to_string(number) +
                  ": expected length, checksum and name of a file, got something else (the file is damaged)");
    }
    const files::FileSum found = files::sum_of_file(directory / entry.name);
    if (found == entry.sum) continue;
    throw Error((directory / entry.name).string() + ": expected the " + std::to_string(entry.sum.bytes) +
                " bytes of CRC-32C " + hexadecimal(entry.sum.crc) + " that were written, got " +
                std::to_string(found.bytes) + " of " + hexadecimal(found.crc) +
                ": the file is damaged or was changed");
  }
}

namespace {

constexpr int kDirectoryAttempts = 100;

// "out/" and "out" are the same folder, but a suffix can only be added to the second.
fs::path without_trailing_slash(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

void sync_tree(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      sync_tree(entry.path());
    } else if (entry.is_regular_file()) {
      files::sync_path(entry.path());
    }
  }
  files::sync_path(folder);
}

// `target` is the folder's name in messages.
void sync_all(const fs::path& target, const fs::path& folder) {
  try {
    sync_tree(folder);
  } catch (const fs::filesystem_error& error) {
    files::throw_system_error(target, "its files cannot be flushed to disk", error.code().value());
  }
}

void swap_folders(const fs::path& target, const fs::path& made, const fs::path& existing) {
  if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, existing.c_str(), RENAME_EXCHANGE) == 0) return;
  files::throw_system_error(target, "cannot be replaced in one step (remove it first)", errno);
}

}  // namespace

AtomicDirectory::AtomicDirectory(const fs::path& target)
    : target_(target), resolved_(without_trailing_slash(target)) {
  std::error_code error;
  if (fs::exists(resolved_, error) && !fs::is_directory(resolved_, error)) {
    throw Error(target.string() +
                ": expected a folder to write, got a file (remove it or choose another name)");
  }
  if (fs::is_symlink(resolved_, error)) resolved_ = fs::canonical(resolved_, error);
  fs::create_directories(resolved_.parent_path(), error);
  if (error) files::throw_system_error(target, "its parent folder cannot be created", error.value());
  files::remove_stale_temporaries_of(resolved_);
  for (int attempt = 0; attempt < kDirectoryAttempts; ++attempt) {
    temporary_ = files::temporary_beside(resolved_);
    if (::mkdir(temporary_.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;  // left by a killed process with the same id
      files::throw_system_error(target, "cannot be created", errno);
    }
    files::Descriptor opened(files::open_descriptor(temporary_, O_RDONLY | O_DIRECTORY));
    if (opened.get() >= 0 && files::lock_temporary(opened.get())) {
      lock_ = opened.release();
      return;
    }
  }
  throw Error(target.string() + ": no free temporary name beside it (remove *.tmp-* there)");
}

AtomicDirectory::~AtomicDirectory() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void AtomicDirectory::commit() {
  HEED_ASSERT(!temporary_.empty(), "committed twice");
  sync_all(target_, temporary_);
  write_file(temporary_ / kManifest, manifest_of(temporary_));
  std::error_code error;
  const bool replaces = fs::exists(resolved_, error);
  if (replaces) {
    swap_folders(target_, temporary_, resolved_);
  } else if (::rename(temporary_.c_str(), resolved_.c_str()) != 0) {
    files::throw_system_error(target_, "cannot be renamed into place", errno);
  }
  const fs::path old = replaces ? temporary_ : fs::path();
  temporary_.clear();
  files::sync_path(resolved_.parent_path());
  // The new folder is in place. Whatever of the old one cannot be removed is removed as stale later.
  if (replaces) fs::remove_all(old, error);
}

void AtomicDirectory::move_files(const fs::path& folder, const std::string& last) {
  HEED_ASSERT(!temporary_.empty(), "moved after commit()");
  sync_all(target_, temporary_);
  std::vector<fs::path> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(temporary_)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end(), [&](const fs::path& a, const fs::path& b) {
    return (a == last) != (b == last) ? b == last : a < b;
  });
  for (const fs::path& name : names) {
    if (name == last) files::sync_path(folder);  // the other names must be on disk before this one
    std::error_code error;
    if (fs::is_directory(temporary_ / name, error) && fs::is_directory(folder / name, error)) {
      swap_folders(folder / name, temporary_ / name, folder / name);
    } else if (::rename((temporary_ / name).c_str(), (folder / name).c_str()) != 0) {
      files::throw_system_error(folder / name, "cannot be renamed into place", errno);
    }
  }
  files::sync_path(folder);
}

bool is_complete(const fs::path& directory) {
  std::error_code error;
  return fs::is_regular_file(directory / kManifest, error);
}

void remove_directory(const fs::path& directory) {
  const fs::path folder = without_trailing_slash(directory);
  const fs::path aside = files::temporary_beside(folder);
  if (::rename(folder.c_str(), aside.c_str()) != 0) {
    if (errno == ENOENT) return;
    files::throw_system_error(directory, "cannot be removed", errno);
  }
  files::sync_path(folder.parent_path());
  std::error_code error;
  fs::remove_all(aside, error);
  if (error) files::throw_system_error(directory, "cannot be removed", error.value());
}

std::size_t remove_stale_temporaries(const fs::path& folder) { return files::remove_stale(folder, ""); }

}  // namespace heed
