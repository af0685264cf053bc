// The digests by which the hub names files.
#pragma once

#include <nettle/sha1.h>
#include <nettle/sha2.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace heed::hub {

/// Checks a file of `size` bytes against its ETag from the hub. 64 hexadecimal digits are the SHA-256 of a
/// large file (LFS). 40 digits are git's hash of a small one: the SHA-1 of "blob SIZE\0" and the bytes. Any
/// other ETag passes unchecked.
class EtagCheck {
 public:
  EtagCheck(std::string_view etag, std::uint64_t size);
  /// Returns false if the ETag is not a digest.
  bool checks() const { return kind_ != Kind::none; }
  void update(std::string_view bytes);
  /// Returns the digest of the added bytes, or the ETag itself if it is not a digest. Nothing may be added
  /// afterward.
  std::string digest();

 private:
  enum class Kind { none, git, sha256 } kind_;
  std::string etag_;
  sha1_ctx sha1_;
  sha256_ctx sha256_;
};

}  // namespace heed::hub
