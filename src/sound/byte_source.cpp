// Reads a recording from a file, from a pipe that is kept, or from memory.
#include "sound/decoder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "files/descriptor.h"
#include "heed/error.h"

namespace heed::sound {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 16;

/// read(2) or pread(2), repeated when interrupted.
template <class Read>
std::size_t read_some(const std::string& name, const Read& read) {
  ssize_t got;
  do {
    got = read();
  } while (got < 0 && errno == EINTR);
  if (got < 0) files::throw_system_error(name, "cannot be read", errno);
  return static_cast<std::size_t>(got);
}

}  // namespace

ByteSource::ByteSource(const std::filesystem::path& path, std::size_t piped_limit)
    : name_(shown_name(path)), file_(std::make_unique<InputFile>(path, InputFile::Accept::streams)) {
  size_ = file_->bytes();
  if (file_->is_regular()) return;
  std::error_code none;  // then all stays in memory
  piped_ = SpilledBytes(std::filesystem::temp_directory_path(none));
  buffer_.resize(kBuffer);
  while (const std::size_t got =
             read_some(name_, [&] { return ::read(file_->descriptor(), buffer_.data(), kBuffer); })) {
    piped_.append(std::as_bytes(std::span(buffer_.data(), got)));
    if (piped_.size() > piped_limit) {
      throw Error(name_ + ": expected at most " + std::to_string(piped_limit) +
                  " bytes from a pipe, got more (save the sound to a file)");
    }
  }
  piped_.finish();
  file_.reset();
  memory_ = {reinterpret_cast<const char*>(piped_.data()), piped_.size()};
  size_ = memory_.size();
}

ByteSource::ByteSource(std::string_view bytes, std::string name)
    : name_(std::move(name)), size_(bytes.size()), memory_(bytes) {}

void ByteSource::fill_buffer(std::uint64_t position) {
  buffer_.resize(kBuffer);
  buffer_begin_ = position;
  buffer_.resize(read_some(name_, [&] {
    return ::pread(file_->descriptor(), buffer_.data(), kBuffer, static_cast<off_t>(position));
  }));
}

std::size_t ByteSource::read(std::uint64_t position, std::span<char> bytes) {
  std::size_t done = 0;
  while (done < bytes.size() && position < size_) {
    if (file_ && (position < buffer_begin_ || position >= buffer_begin_ + buffer_.size())) {
      fill_buffer(position);
      if (buffer_.empty()) break;  // the file has become shorter
    }
    const std::string_view there =
        file_ ? std::string_view(buffer_.data(), buffer_.size()).substr(position - buffer_begin_)
              : memory_.substr(position);
    const std::size_t count = std::min(there.size(), bytes.size() - done);
    std::memcpy(bytes.data() + done, there.data(), count);
    done += count;
    position += count;
  }
  return done;
}

std::string ByteSource::read(std::uint64_t position, std::size_t count) {
  std::string bytes(count, '\0');
  bytes.resize(read(position, std::span(bytes.data(), bytes.size())));
  return bytes;
}

}  // namespace heed::sound
