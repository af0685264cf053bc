#include "heed/files/file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "files/descriptor.h"
#include "files/input_file.h"

namespace heed {

std::string read_file(const std::filesystem::path& path, std::size_t limit) {
  return InputFile(path, InputFile::Accept::streams).read(limit);
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

std::shared_ptr<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const InputFile file(path, InputFile::Accept::regular);
  std::shared_ptr<MappedFile> mapped(new MappedFile);
  const auto bytes = static_cast<std::size_t>(file.bytes());
  if (bytes == 0) return mapped;  // mmap rejects empty mappings
  void* data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.descriptor(), 0);
  if (data == MAP_FAILED)
    files::throw_system_error(path, "cannot map its " + std::to_string(bytes) + " bytes", errno);
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
