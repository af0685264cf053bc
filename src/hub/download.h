// One file into the cache.
#pragma once

#include <cstdint>
#include <functional>

#include "hub/cache.h"

namespace heed::hub {

/// How many bytes of a file are newly there, and how many of them came over the network; negative where a
/// download begins anew.
using OnBytes = std::function<void(std::int64_t bytes, std::int64_t received)>;

/// Puts a file into the cache: under the lock of its blob, resumes what an earlier attempt left, checks size
/// and hash, gives the blob its name when it is whole and on disk, then links it into the snapshot. Throws
/// Error (the part that was downloaded stays, unless its hash is wrong) and Stopped.
void download(Client& client, const Repository& repository, const Cache& cache, const RemoteFile& file,
              const OnBytes& on_bytes);

}  // namespace heed::hub
