// Writes into the cache of heed/io/hub_cache.h, into which other processes (and Python's huggingface_hub) may
// write at the same time.
#pragma once

#include <nettle/sha1.h>
#include <nettle/sha2.h>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/repository.h"

namespace heed::hub {

/// An exclusive lock on a file for the lifetime of the object: flock(2), as in Python's filelock.
class FileLock {
 public:
  /// Waits for the lock. Calls `on_wait` once if another process holds it. Throws Canceled and Error.
  FileLock(const std::filesystem::path& file, const StopSignal& stop, const std::function<void()>& on_wait);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// The folders of one repository at one commit.
class Cache {
 public:
  Cache(const std::filesystem::path& hub, const Repository& repository);

  std::filesystem::path snapshot() const { return folder_ / "snapshots" / commit_; }
  std::filesystem::path file(const std::string& name) const { return snapshot() / name; }
  std::filesystem::path blob(const std::string& etag) const { return folder_ / "blobs" / etag; }
  std::filesystem::path partial(const std::string& etag) const {
    return folder_ / "blobs" / (etag + ".incomplete");
  }
  std::filesystem::path lock(const std::string& etag) const { return locks_ / (etag + ".lock"); }

  /// Creates the folders for downloads.
  void make_folders() const;
  /// Throws Error if the disk lacks space for the missing parts of these files.
  void require_space(const std::vector<RemoteFile>& files) const;
  /// Makes the file's name in the snapshot a link to the blob.
  void link(const RemoteFile& file) const;
  /// Records the commit of a branch or tag. A commit as revision needs no record.
  void record_revision(const std::string& revision) const;

 private:
  std::filesystem::path folder_, locks_;
  std::string commit_;
};

/// "1.5 GB"
std::string size_text(std::uint64_t bytes);

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
