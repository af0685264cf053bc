// Downloads one file into the cache.
#pragma once

#include <cstdint>
#include <functional>

#include "hub/cache.h"

namespace heed::hub {

/// Receives how many more bytes of a file are present, and how many of them came over the network. Negative
/// if a download starts over.
using OnBytes = std::function<void(std::int64_t bytes, std::int64_t received)>;

/// Puts a file into the cache. Under the lock of its blob, resumes an earlier attempt, checks size and hash,
/// renames the blob when it is complete and on disk, then links it into the snapshot. Throws Error (the
/// downloaded part is kept, unless its hash is wrong) and Stopped.
void download(Client& client, const Repository& repository, const Cache& cache, const RemoteFile& file,
              const OnBytes& on_bytes);

}  // namespace heed::hub
