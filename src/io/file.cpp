#include "heed/io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "heed/error.h"
#include "io/descriptor.h"

namespace heed {
namespace {

struct OpenedFile {
  io::Descriptor descriptor;
  struct stat status {};
};

// Opening without blocking lets a pipe without a writer be told apart instead of waited for.
void open_for_reading(const std::filesystem::path& path, OpenedFile& file) {
  if (file.descriptor.get() < 0) io::throw_system_error(path, "a file that can be read", errno);
  if (::fstat(file.descriptor.get(), &file.status) != 0) {
    io::throw_system_error(path, "a file that can be read", errno);
  }
  if (S_ISDIR(file.status.st_mode)) throw Error(path.string() + ": expected a file, got a directory");
}

[[noreturn]] void throw_too_long(const std::filesystem::path& path, std::size_t limit) {
  throw Error(path.string() + ": expected a file of at most " + std::to_string(limit) +
              " bytes, got a longer one");
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::size_t limit) {
  OpenedFile file{io::Descriptor(io::open_descriptor(path, O_RDONLY))};
  open_for_reading(path, file);
  const auto announced = static_cast<std::uint64_t>(std::max<off_t>(file.status.st_size, 0));
  if (S_ISREG(file.status.st_mode) && announced > limit) throw_too_long(path, limit);
  constexpr std::size_t kStep = 1 << 16;
  std::string content;
  std::size_t used = 0;
  content.resize(S_ISREG(file.status.st_mode) ? announced + 1 : kStep);
  for (;;) {
    const ssize_t got = ::read(file.descriptor.get(), content.data() + used, content.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) io::throw_system_error(path, "a file that can be read", errno);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    if (used > limit) throw_too_long(path, limit);
    if (used == content.size()) content.resize(used + std::max(used / 2, kStep));
  }
  content.resize(used);
  return content;
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

std::shared_ptr<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  OpenedFile file{io::Descriptor(io::open_descriptor(path, O_RDONLY | O_NONBLOCK))};
  open_for_reading(path, file);
  if (!S_ISREG(file.status.st_mode)) {
    throw Error(path.string() + ": expected a regular file, got a pipe or device (save it to a file first)");
  }
  std::shared_ptr<MappedFile> mapped(new MappedFile);
  const auto bytes = static_cast<std::size_t>(file.status.st_size);
  if (bytes == 0) return mapped;  // mmap refuses empty mappings
  void* data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.descriptor.get(), 0);
  if (data == MAP_FAILED) io::throw_system_error(path, "to map " + std::to_string(bytes) + " bytes", errno);
  mapped->data_ = static_cast<std::byte*>(data);
  mapped->bytes_ = bytes;
  return mapped;
}

void MappedFile::forget(std::byte* data, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace heed
