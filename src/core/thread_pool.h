// The threads that help callers of parallel_for. They are created when they are first needed, sleep while
// idle, and end with the process. A forked child creates its own.
//
// A caller works itself and offers shares of its work to free threads. It withdraws the offers that have not
// been taken by the time it is done, so that it never waits for a thread that has not woken up yet; any other
// thread can do the work of such a share. A caller only waits for threads that are currently running its
// work.
#pragma once

#include "heed/threads.h"

namespace heed::detail {

/// Calls share(0) on this thread and, concurrently, share(1), share(2), ... on threads of the pool: at most
/// `team` calls in total, and only as many (possibly none) as keep the process within `limit` computing
/// threads. Returns when every started call has returned. `share` must not throw.
void run_shared(int team, int limit, FunctionRef<void(int member)> share);

/// In a forked child, which has none of its parent's threads: begins with an empty pool.
void forget_threads();

}  // namespace heed::detail
