// CRC-32C (Castagnoli), the checksum of iSCSI, ext4 and SSE 4.2. It detects every burst error of up to 32
// bits, and misses any other damage with probability 2^-32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace heed::files {

/// Extends the checksum `before` of the preceding bytes (0 if there are none) by `bytes`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

struct FileSum {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  bool operator==(const FileSum&) const = default;
};

/// Returns length and checksum of a whole file. Throws Error if it is missing, unreadable or not a regular
/// file.
FileSum sum_of_file(const std::filesystem::path& path);

}  // namespace heed::files
