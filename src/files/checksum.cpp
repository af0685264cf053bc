// CRC-32C eight bytes at a time by tables (Kounavis and Berry, "A systematic approach to building high
// performance software-based CRC generators", 2005).
#include "files/checksum.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "files/descriptor.h"
#include "heed/error.h"

namespace heed::files {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // 0x1edc6f41, lowest bit first
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// tables[k][b]: the remainder of byte b followed by k zero bytes.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = rest;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t one_less = tables[k - 1][byte];
      tables[k][byte] = (one_less >> 8) ^ tables[0][one_less & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t byte_at(std::span<const std::byte> bytes, std::size_t i) {
  return std::to_integer<std::uint32_t>(bytes[i]);
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint32_t next = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      next ^= kTables[7 - j][((crc >> (8 * j)) ^ byte_at(bytes, i + j)) & 0xff];
      next ^= kTables[3 - j][byte_at(bytes, i + 4 + j)];
    }
    crc = next;
  }
  for (; i < bytes.size(); ++i) crc = (crc >> 8) ^ kTables[0][(crc ^ byte_at(bytes, i)) & 0xff];
  return ~crc;
}

// The file is read, not mapped, so that an unreadable sector is an Error and not a signal.
FileSum sum_of_file(const std::filesystem::path& path) {
  const Descriptor file(open_descriptor(path, O_RDONLY | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    throw_system_error(path, "cannot be read", errno);
  }
  if (!S_ISREG(status.st_mode)) throw Error(path.string() + ": expected a regular file, got something else");
  std::vector<std::byte> part(std::size_t{1} << 18);
  FileSum sum;
  for (;;) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error(path, "cannot be read", errno);
    if (got == 0) return sum;
    sum.bytes += static_cast<std::uint64_t>(got);
    sum.crc = crc32c({part.data(), static_cast<std::size_t>(got)}, sum.crc);
  }
}

}  // namespace heed::files
