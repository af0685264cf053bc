#include "files/spilled_array.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "files/descriptor.h"
#include "heed/error.h"

namespace heed {

SpilledBytes::SpilledBytes(SpilledBytes&& other) noexcept
    : folder_(std::move(other.folder_)),
      in_memory_(other.in_memory_),
      tail_(std::move(other.tail_)),
      spilled_(std::exchange(other.spilled_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      mapped_(std::exchange(other.mapped_, nullptr)) {
  other.tail_.clear();
}

SpilledBytes& SpilledBytes::operator=(SpilledBytes&& other) noexcept {
  if (this == &other) return *this;
  release();
  folder_ = std::move(other.folder_);
  in_memory_ = other.in_memory_;
  tail_ = std::exchange(other.tail_, {});
  spilled_ = std::exchange(other.spilled_, 0);
  descriptor_ = std::exchange(other.descriptor_, -1);
  mapped_ = std::exchange(other.mapped_, nullptr);
  return *this;
}

SpilledBytes::~SpilledBytes() { release(); }

void SpilledBytes::release() {
  if (mapped_ != nullptr) ::munmap(mapped_, spilled_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SpilledBytes::append(std::span<const std::byte> bytes) {
  HEED_ASSERT(mapped_ == nullptr, "appended to a finished array");
  tail_.insert(tail_.end(), bytes.begin(), bytes.end());
  constexpr std::size_t kBuffer = std::size_t{1} << 20;
  const std::size_t most = descriptor_ < 0 ? in_memory_ : kBuffer;
  if (!folder_.empty() && tail_.size() > most) spill();
}

// Moves the bytes in memory to the file.
void SpilledBytes::spill() {
  if (descriptor_ < 0) {
    if (!std::filesystem::is_directory(folder_)) folder_ = std::filesystem::temp_directory_path();
    std::filesystem::path path;
    do {
      path = files::temporary_beside(folder_ / "spilled");
      descriptor_ = files::open_descriptor(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    } while (descriptor_ < 0 && errno == EEXIST);  // another host's, in a shared folder
    if (descriptor_ < 0) files::throw_system_error(folder_, "cannot keep a temporary file", errno);
    ::unlink(path.c_str());
  }
  for (std::size_t done = 0; done < tail_.size();) {
    const ssize_t written = ::write(descriptor_, tail_.data() + done, tail_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      files::throw_system_error(
          folder_, "cannot keep " + std::to_string(size()) + " bytes in a temporary file", errno);
    }
    done += static_cast<std::size_t>(written);
  }
  spilled_ += tail_.size();
  tail_.clear();
  tail_.shrink_to_fit();
}

void SpilledBytes::finish() {
  if (descriptor_ < 0 || mapped_ != nullptr) return;
  spill();
  tail_ = {};
  void* data = ::mmap(nullptr, spilled_, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (data == MAP_FAILED)
    files::throw_system_error(folder_, "cannot map " + std::to_string(spilled_) + " bytes", errno);
  mapped_ = static_cast<std::byte*>(data);
}

const std::byte* SpilledBytes::data() const {
  HEED_ASSERT(descriptor_ < 0 || mapped_ != nullptr, "array in a file read before it was finished");
  return mapped_ != nullptr ? mapped_ : tail_.data();
}

}  // namespace heed
