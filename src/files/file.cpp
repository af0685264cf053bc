// Reads, maps and atomically writes files.
#include "heed/files/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "files/descriptor.h"
#include "files/input_file.h"
#include "files/mapped_files.h"
#include "heed/error.h"

namespace heed {
namespace {

thread_local MappedFiles* opened_for = nullptr;

std::int64_t modified_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::size_t limit) {
  return InputFile(path, InputFile::Accept::streams).read(limit);
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

std::shared_ptr<MappedFile> MappedFile::open(const std::filesystem::path& path,
                                             const std::filesystem::path& shown) {
  const InputFile file(path, InputFile::Accept::regular, shown);
  std::shared_ptr<MappedFile> mapped(new MappedFile);
  mapped->shown_ = shown.empty() ? path : shown;
  const auto bytes = static_cast<std::size_t>(file.bytes());
  if (bytes == 0) return mapped;  // mmap rejects empty mappings
  struct stat status {};
  mapped->descriptor_ = ::fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 0);
  void* data = MAP_FAILED;
  if (mapped->descriptor_ >= 0 && ::fstat(mapped->descriptor_, &status) == 0)
    data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.descriptor(), 0);
  if (data == MAP_FAILED)
    files::throw_system_error(mapped->shown_, "cannot map its " + std::to_string(bytes) + " bytes", errno);
  mapped->data_ = static_cast<std::byte*>(data);
  mapped->bytes_ = bytes;
  mapped->modified_ns_ = modified_ns(status);
  if (opened_for != nullptr) opened_for->add(mapped);
  return mapped;
}

void MappedFile::require_unchanged() const {
  struct stat status {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) return;
  const auto bytes = static_cast<std::size_t>(std::max<off_t>(status.st_size, 0));
  if (bytes == bytes_ && modified_ns(status) == modified_ns_) return;
  throw Error(
      shown_.string() + ": expected the " + std::to_string(bytes_) +
      " bytes that were opened, got a file of " + std::to_string(bytes) +
      " that was written to since (open the model again; a new file is written beside the old one and "
      "renamed over it)");
}

void MappedFile::forget(std::byte* data, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MappedFiles::add_from(const std::function<void()>& open) {
  struct Restored {
    MappedFiles* outer;
    ~Restored() { opened_for = outer; }
  } const restored{std::exchange(opened_for, this)};
  open();
}

void MappedFiles::add(std::weak_ptr<const MappedFile> file) {
  const std::lock_guard lock(mutex_);
  files_.push_back(std::move(file));
}

void MappedFiles::require_unchanged() const {
  const std::lock_guard lock(mutex_);
  for (const auto& one : files_) {
    if (const std::shared_ptr<const MappedFile> file = one.lock()) file->require_unchanged();
  }
}

namespace {

constexpr int kFileAttempts = 100;

std::filesystem::path follow_links(const std::filesystem::path& target) {
  std::error_code error;
  if (!std::filesystem::is_symlink(target, error) || error) return target;
  const std::filesystem::path resolved = std::filesystem::canonical(target, error);
  return error ? target : resolved;  // a dangling link is replaced itself
}

// Opens a new locked file beside `resolved` and returns its descriptor.
int open_temporary(const std::filesystem::path& target, const std::filesystem::path& resolved,
                   std::filesystem::path& temporary) {
  files::remove_stale_temporaries_of(resolved);
  for (int attempt = 0; attempt < kFileAttempts; ++attempt) {
    temporary = files::temporary_beside(resolved);
    files::Descriptor file(files::open_descriptor(temporary, O_WRONLY | O_CREAT | O_EXCL, 0666));
    if (file.get() < 0 && errno == EEXIST) continue;  // left by a killed process with the same id
    if (file.get() < 0) files::throw_system_error(target, "cannot be created", errno);
    if (files::lock_temporary(file.get())) return file.release();
  }
  throw Error(target.string() + ": no free temporary name beside it (remove *.tmp-* there)");
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& target)
    : target_(target), resolved_(follow_links(target)) {
  if (!target.has_filename()) throw Error(target.string() + ": expected the name of a file, got a directory");
  struct stat status {};
  const bool exists = ::stat(target.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode))
    throw Error(target.string() + ": expected a file to write, got a directory");
  if (exists && !S_ISREG(status.st_mode)) {
    descriptor_ = files::open_descriptor(target, O_WRONLY);
    if (descriptor_ < 0) files::throw_system_error(target, "cannot be opened for writing", errno);
    return;
  }
  descriptor_ = open_temporary(target_, resolved_, temporary_);
  // A replaced file keeps its permissions. If the system does not allow that, the defaults are used.
  if (exists && ::fchmod(descriptor_, status.st_mode & 07777) != 0) errno = 0;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  HEED_ASSERT(descriptor_ >= 0, "written to after commit() or an error");
  constexpr std::size_t kLargestWrite = std::size_t{1} << 30;  // Linux writes at most 2 GiB at a time
  const std::uint64_t wanted = bytes_written_ + bytes.size();
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote =
        ::write(descriptor_, bytes.data() + done, std::min(bytes.size() - done, kLargestWrite));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      const int error = errno;
      discard();
      files::throw_system_error(target_, "cannot write " + std::to_string(wanted) + " bytes", error);
    }
    done += static_cast<std::size_t>(wrote);
    bytes_written_ += static_cast<std::uint64_t>(wrote);
  }
}

void AtomicFile::commit() {
  HEED_ASSERT(descriptor_ >= 0, "committed twice or after an error");
  files::sync_descriptor(descriptor_, target_);
  if (!temporary_.empty()) {
    if (::rename(temporary_.c_str(), resolved_.c_str()) != 0) {
      files::throw_system_error(target_, "cannot be renamed into place", errno);
    }
    temporary_.clear();
    files::sync_path(files::folder_of(resolved_));
  }
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0) {
    files::throw_system_error(target_, "cannot write " + std::to_string(bytes_written_) + " bytes", errno);
  }
}

}  // namespace heed
