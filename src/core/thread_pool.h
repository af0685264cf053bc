// The threads that help callers of parallel_for. They are created when they are first needed, sleep while
// idle, and end with the process. A forked child creates its own.
//
// A caller works itself and gives parts of its work to free threads. What a thread has not begun, the caller
// and its other threads take back, piece by piece, so that nobody ever waits for a thread that has not woken
// up yet: a caller only waits for threads that are running a piece.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

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

// The processors that the process may use.

/// Returns the minimum processor quota, in processors, of the process's control groups (versions 1 and 2), or
/// nullopt if they set no limit. `root` is "/" except in tests.
std::optional<double> processor_quota(const std::filesystem::path& root);

/// Returns the processors on which the scheduler may run the calling thread, those of one core side by side;
/// empty if that is not known.
std::vector<int> allowed_processors();

/// Keeps the calling thread, and the threads that it starts, to these processors.
void bind_to(const std::vector<int>& processors);

/// Returns the number of processors on which the scheduler may run the calling thread, but at most the quota,
/// rounded up.
int available_processors();

/// If OMP_PROC_BIND requests it, binds this thread to one processor: number `index` of those available to the
/// first caller.
void bind_if_asked(int index);

/// Returns the first number of OMP_NUM_THREADS if that is set, otherwise available_processors().
int default_threads();

}  // namespace heed::detail
