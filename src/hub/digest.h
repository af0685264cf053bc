// SHA-1 and SHA-256 (FIPS 180-4), which the hub uses to name and check files.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace heed::hub {

class Sha1 {
 public:
  void update(std::string_view bytes);
  /// Returns the digest as 40 hexadecimal digits. Nothing may be added afterwards.
  std::string hex();

 private:
  void block(const unsigned char* bytes);
  std::array<std::uint32_t, 5> state_{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  std::array<unsigned char, 64> rest_{};
  std::uint64_t length_ = 0;
};

class Sha256 {
 public:
  void update(std::string_view bytes);
  /// Returns the digest as 64 hexadecimal digits. Nothing may be added afterwards.
  std::string hex();

 private:
  void block(const unsigned char* bytes);
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> rest_{};
  std::uint64_t length_ = 0;
};

/// Checks a file of `size` bytes against its ETag from the hub. 64 hexadecimal digits are the SHA-256 of a
/// large file (LFS). 40 digits are git's hash of a small one: the SHA-1 of "blob SIZE\0" and the bytes. Any
/// other ETag passes unchecked.
class EtagCheck {
 public:
  EtagCheck(std::string_view etag, std::uint64_t size);
  /// Returns false if the ETag is not a digest.
  bool checks() const { return kind_ != Kind::none; }
  void update(std::string_view bytes);
  /// Returns the digest of the added bytes, or the ETag itself if it is not a digest.
  std::string digest();

 private:
  enum class Kind { none, git, sha256 } kind_;
  std::string etag_;
  Sha1 sha1_;
  Sha256 sha256_;
};

}  // namespace heed::hub
