// The threads that help callers of parallel_for. They are created when they are first needed, sleep while
// idle, and end with the process. A forked child creates its own.
//
// A caller works itself and gives parts of its work to free threads. What a thread has not begun, the caller
// and its other threads take back, piece by piece, so that nobody ever waits for a thread that has not woken
// up yet: a caller only waits for threads that are running a piece.
#pragma once

#include "heed/threads.h"

namespace heed::detail {

/// The range [0, count), cut into pieces of which threads take one after the other.
struct SharedWork {
  std::int64_t count = 0;
  std::int64_t pieces = 0;  // at most kMostPieces
  FunctionRef<void(std::int64_t member, std::int64_t begin, std::int64_t end)> body;
};
inline constexpr std::int64_t kMostPieces = 65535;

/// Calls the body for every piece, member 0 on this thread and, concurrently, 1, 2, ... on threads of the
/// pool: at most `team` members, and only as many as keep the process within `limit` computing threads. Each
/// member first takes the pieces of its own part, which are adjacent. Returns when all are done, or throws
/// what the first piece that failed has thrown.
void run_shared(int team, int limit, const SharedWork& work);

/// Whether this thread runs a body.
bool is_sharing();

/// In a forked child, which has none of its parent's threads: begins with an empty pool.
void forget_threads();

}  // namespace heed::detail
