// CRC-32C (Castagnoli), the checksum of iSCSI, ext4 and SSE 4.2: finds every burst of up to 32 wrong bits,
// and any other damage but one case in 2^32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace heed::io {

/// The checksum of more bytes, given the one of those before (0 where there are none).
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

struct FileSum {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  bool operator==(const FileSum&) const = default;
};

/// Length and checksum of a whole file. Throws Error where it is missing, unreadable or no regular file.
FileSum sum_of_file(const std::filesystem::path& path);

}  // namespace heed::io
