// Resumes a file's download, checks size and digest, and puts it into the cache.
#include "hub/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>

#include "core/strings.h"
#include "files/descriptor.h"
#include "heed/io/hub_cache.h"

namespace heed::hub {
namespace {

namespace fs = std::filesystem;

// Adds the bytes of an open file to the check, from where it stands to its end; returns their number.
std::uint64_t add_contents(int descriptor, const fs::path& path, EtagCheck& check) {
  std::string buffer(1 << 20, '\0');
  for (std::uint64_t bytes = 0;;) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) files::throw_system_error(path, "cannot be read", errno);
    if (got == 0) return bytes;
    check.update(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
    bytes += static_cast<std::uint64_t>(got);
  }
}

// A partially downloaded file. Its bytes are hashed as they arrive; those of an earlier attempt when it is
// opened.
class PartialFile {
 public:
  PartialFile(const fs::path& path, const RemoteFile& remote)
      : path_(path),
        remote_(remote),
        descriptor_(files::open_descriptor(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666)),
        check_(remote.etag, remote.size) {
    if (descriptor_.get() < 0) fail();
    struct stat status {};
    if (::fstat(descriptor_.get(), &status) != 0) fail();
    if (!S_ISREG(status.st_mode))
      throw Error(path.string() + ": expected a regular file, got something else");
    if (static_cast<std::uint64_t>(status.st_size) > remote.size) {
      clear();
    } else {
      read_what_is_there();
    }
  }

  std::uint64_t bytes() const { return bytes_; }
  bool is_whole() const { return bytes_ == remote_.size; }

  void append(std::string_view data) {
    if (data.size() > remote_.size - bytes_) {
      throw Error(remote_.name + ": expected " + std::to_string(remote_.size) +
                  " bytes, got more (is HF_ENDPOINT a Hugging Face hub?)");
    }
    check_.update(data);
    for (std::string_view rest = data; !rest.empty();) {
      const ssize_t written = ::write(descriptor_.get(), rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail();
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    bytes_ += data.size();
  }

  void clear() {
    if (::ftruncate(descriptor_.get(), 0) != 0 || ::lseek(descriptor_.get(), 0, SEEK_SET) != 0) fail();
    bytes_ = 0;
    check_ = EtagCheck(remote_.etag, remote_.size);
  }

  /// For a complete file: syncs it to disk and returns the ETag it should have.
  std::string finish() {
    files::sync_descriptor(descriptor_.get(), path_);
    return check_.digest();
  }

 private:
  void read_what_is_there() { bytes_ = add_contents(descriptor_.get(), path_, check_); }

  [[noreturn]] void fail() const {
    files::throw_system_error(path_, "cannot write " + size_text(remote_.size), errno);
  }

  fs::path path_;
  const RemoteFile& remote_;
  files::Descriptor descriptor_;
  EtagCheck check_;
  std::uint64_t bytes_ = 0;
};

// Returns true if a "206 Partial Content" begins where the file ends: "bytes 100-199/200".
bool continues(const Response& response, std::uint64_t at, std::uint64_t size) {
  const std::string range = response.header("content-range");
  const std::string begin = std::string("bytes ") + std::to_string(at) + "-";
  const std::string end = std::string("/") + std::to_string(size);
  return range.starts_with(begin) && range.ends_with(end);
}

// Requests the rest once. `reached` is the size at the last progress. Sends no If-Range: the address contains
// the commit, whose files never change, and the hash of the whole file is checked in any case.
Response request_rest(Client& client, const Repository& repository, PartialFile& part, const RemoteFile& file,
                      const OnBytes& on_bytes, Retries& retries, std::uint64_t& reached) {
  const std::uint64_t start = part.bytes();
  Request request;
  request.url = file_url(client.settings(), repository, file.name);
  request.headers = {"Accept-Encoding: identity"};
  request.silence_seconds = client.settings().download_seconds;
  if (start > 0) request.headers.push_back("Range: bytes=" + std::to_string(start) + "-");
  bool first = true;
  request.on_body = [&](const Response& response, std::string_view bytes) {
    const std::string coding = response.header("content-encoding");
    if (!coding.empty() && coding != "identity") {
      throw Error(file.name + ": expected the bytes of the file, got them with the Content-Encoding " +
                  quoted_text(coding) + " (does a proxy compress? see HTTPS_PROXY and NO_PROXY)");
    }
    const bool anew =
        first && start > 0 && !(response.status == 206 && continues(response, start, file.size));
    if (anew && response.status == 206)
      throw Error(file.name + ": expected the range from " + std::to_string(start) + ", got another one");
    if (anew) {  // the server sends the whole file, not the requested range
      part.clear();
      on_bytes(-static_cast<std::int64_t>(start), 0);
    }
    first = false;
    part.append(bytes);
    on_bytes(static_cast<std::int64_t>(bytes.size()), static_cast<std::int64_t>(bytes.size()));
    // A server that sends the beginning again and again, or a few bytes at a time, makes no progress.
    constexpr std::uint64_t kProgress = 1 << 16;
    if (part.bytes() >= reached + kProgress) {
      reached = part.bytes();
      retries.progress();
    }
  };
  return client.send(request, false);
}

void fill(Client& client, const Repository& repository, PartialFile& part, const RemoteFile& file,
          const OnBytes& on_bytes) {
  Retries retries(client.conversation());
  std::uint64_t reached = part.bytes();
  while (!part.is_whole()) {
    try {
      const Response response = request_rest(client, repository, part, file, on_bytes, retries, reached);
      if (part.is_whole()) return;
      const bool good = response.status == 200 || response.status == 206;
      if (good) throw ConnectionError(file.name + ": the connection ended early (try again)", true, false);
      if (response.status == 416 && part.bytes() > 0) {  // the part is not a part of the server's file
        on_bytes(-static_cast<std::int64_t>(part.bytes()), 0);
        part.clear();
      } else if (!retries.after(response)) {
        throw_refusal(response, client.settings(), repository.name, repository.revision, file.name);
      }
    } catch (const ConnectionError& error) {
      retries.after(error);
    }
  }
}

void download_blob(Client& client, const Repository& repository, const Cache& cache, const RemoteFile& file,
                   const OnBytes& on_bytes) {
  const fs::path path = cache.partial(file.etag), blob = cache.blob(file.etag);
  for (;;) {
    std::optional<PartialFile> part(std::in_place, path, file);
    const bool resumed = part->bytes() > 0;
    on_bytes(static_cast<std::int64_t>(part->bytes()), 0);
    fill(client, repository, *part, file, on_bytes);
    const std::string digest = part->finish();
    part.reset();
    std::error_code error;
    if (digest == file.etag) {
      fs::rename(path, blob, error);
      if (error) files::throw_system_error(blob, "cannot be renamed into place", error.value());
      files::sync_path(blob.parent_path());
      return;
    }
    fs::remove(path, error);
    on_bytes(-static_cast<std::int64_t>(file.size), 0);
    if (resumed) continue;  // the earlier part may be the wrong one
    throw Error(repository.name + ": " + file.name + ": expected the hash " + file.etag + ", got " + digest +
                " (the download was damaged and is deleted; try again)");
  }
}

// Returns true if the blob is there and has the size and the hash of its name.
bool is_sound(const fs::path& blob, const RemoteFile& file) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(blob, error)) || fs::file_size(blob, error) != file.size ||
      error)
    return false;
  files::Descriptor descriptor(files::open_descriptor(blob, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0));
  if (descriptor.get() < 0) files::throw_system_error(blob, "cannot be opened", errno);
  EtagCheck check(file.etag, file.size);
  add_contents(descriptor.get(), blob, check);
  return check.digest() == file.etag;
}

const std::uint8_t* data_of(std::string_view bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

std::string hexadecimal(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) append_hex(text, byte);
  return text;
}

}  // namespace

void download(Client& client, const Repository& repository, const Cache& cache, const RemoteFile& file,
              const OnBytes& on_bytes) {
  const auto tell = [&] {
    if (client.conversation().on_message)
      client.conversation().on_message("waiting for another download of " + file.name);
  };
  const FileLock lock(cache.lock(file.etag), client.conversation().stop, tell);
  if (!EtagCheck(file.etag, file.size).checks() && client.conversation().on_message) {
    client.conversation().on_message(file.name + ": not checked, as its ETag " + quoted_text(file.etag) +
                                     " is not a hash");
  }
  if (is_sound(cache.blob(file.etag), file)) {
    on_bytes(static_cast<std::int64_t>(file.size), 0);
  } else {
    download_blob(client, repository, cache, file, on_bytes);
  }
  cache.link(file);
}

EtagCheck::EtagCheck(std::string_view etag, std::uint64_t size) : kind_(Kind::none), etag_(etag) {
  sha1_init(&sha1_);
  sha256_init(&sha256_);
  if (!is_commit(etag)) return;  // not hexadecimal digits of either length
  kind_ = etag.size() == 40 ? Kind::git : Kind::sha256;
  if (kind_ == Kind::git) update("blob " + std::to_string(size) + std::string(1, '\0'));
}

void EtagCheck::update(std::string_view bytes) {
  if (kind_ == Kind::git) sha1_update(&sha1_, bytes.size(), data_of(bytes));
  if (kind_ == Kind::sha256) sha256_update(&sha256_, bytes.size(), data_of(bytes));
}

std::string EtagCheck::digest() {
  std::uint8_t bytes[SHA256_DIGEST_SIZE];
  if (kind_ == Kind::git) {
    sha1_digest(&sha1_, SHA1_DIGEST_SIZE, bytes);
    return hexadecimal({bytes, SHA1_DIGEST_SIZE});
  }
  if (kind_ == Kind::sha256) {
    sha256_digest(&sha256_, SHA256_DIGEST_SIZE, bytes);
    return hexadecimal({bytes, SHA256_DIGEST_SIZE});
  }
  return etag_;
}

}  // namespace heed::hub
