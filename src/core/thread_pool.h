// The threads that help callers of parallel_for. They are made when they are first needed, sleep while nobody
// needs them, and end with the process; a forked child makes its own.
//
// A caller works itself and offers shares of its work to threads that are free. An offer that has not been
// taken when the caller is done is taken back, so that nobody waits for a thread that has not even woken up,
// and what a share holds can be done by any other. A caller waits only for threads that are in the middle of
// something.
#pragma once

#include "heed/threads.h"

namespace heed::detail {

/// Calls share(0) on this thread, and meanwhile share(1), share(2), ... on threads of the pool, fewer than
/// `team` calls in all, and as many as keep the process within `limit` computing threads; perhaps none.
/// Returns when every call that began has returned. `share` throws nothing.
void run_shared(int team, int limit, FunctionRef<void(int member)> share);

}  // namespace heed::detail
