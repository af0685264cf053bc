// Downloads one file into the cache.
#pragma once

#include <nettle/sha1.h>
#include <nettle/sha2.h>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "hub/cache.h"

namespace heed::hub {

/// Receives how many more bytes of a file are present, and how many of them came over the network. Negative
/// if a download starts over.
using OnBytes = std::function<void(std::int64_t bytes, std::int64_t received)>;

/// Puts a file into the cache. Under the lock of its blob, resumes an earlier attempt, checks size and hash,
/// renames the blob when it is complete and on disk, then links it into the snapshot. Throws Error (the
/// downloaded part is kept, unless its hash is wrong) and Canceled.
void download(Client& client, const Repository& repository, const Cache& cache, const RemoteFile& file,
              const OnBytes& on_bytes);

// The digests by which the hub names files.

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
