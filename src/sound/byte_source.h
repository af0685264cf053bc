// The bytes of a recording, at any position: decoders seek.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/input_file.h"
#include "files/spilled_array.h"

namespace heed::sound {

class ByteSource {
 public:
  /// A regular file stays where it is. Anything else is read to its end; throws Error for more than
  /// `piped_limit` bytes.
  ByteSource(const std::filesystem::path& path, std::size_t piped_limit);
  /// `bytes` must outlive this.
  ByteSource(std::string_view bytes, std::string name);

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  /// Copies bytes from `position` on and returns their number, fewer than asked at the end. Throws Error if
  /// the file cannot be read.
  std::size_t read(std::uint64_t position, std::span<char> bytes);
  /// Returns up to `count` bytes from `position` on.
  std::string read(std::uint64_t position, std::size_t count);

 private:
  void fill_buffer(std::uint64_t position);

  std::string name_;
  std::uint64_t size_ = 0;
  std::unique_ptr<InputFile> file_;
  std::vector<char> buffer_;  // bytes of the file from buffer_begin_ on
  std::uint64_t buffer_begin_ = 0;
  SpilledBytes piped_;
  std::string_view memory_;  // of what is no regular file
};

}  // namespace heed::sound
