// parallel_for splits its range into pieces, several per thread, which depend on the size of the call alone.
#include "heed/threads.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "core/processors.h"
#include "core/thread_pool.h"
#include "heed/error.h"

namespace heed {
namespace {

constexpr std::int64_t kPiecesEach = 4;

std::atomic<int> thread_count{0};  // 0: not determined yet

}  // namespace

int threads() {
  int count = thread_count.load(std::memory_order_relaxed);
  if (count > 0) return count;
  const int at_first = detail::default_threads();
  return thread_count.compare_exchange_strong(count, at_first) ? at_first : count;
}

void set_threads(int count) {
  if (count < 1) throw Error("threads: expected at least 1, got " + std::to_string(count));
  thread_count = count;
}

std::int64_t team_size(std::int64_t count, std::int64_t grain) {
  if (count <= 0) return 0;
  if (detail::is_sharing()) return 1;
  return std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, threads());
}

void parallel_for(std::int64_t count, std::int64_t grain,
                  FunctionRef<void(std::int64_t begin, std::int64_t end)> body) {
  parallel_for_team(team_size(count, grain), count, grain,
                    [&](std::int64_t, std::int64_t begin, std::int64_t end) { body(begin, end); });
}

void parallel_for_team(std::int64_t team, std::int64_t count, std::int64_t grain,
                       FunctionRef<void(std::int64_t member, std::int64_t begin, std::int64_t end)> body) {
  if (count <= 0) return;
  if (team <= 1 || detail::is_sharing()) return body(0, 0, count);
  const std::int64_t most =
      std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, detail::kMostPieces);
  detail::run_shared(static_cast<int>(team), threads(), {count, std::min(team * kPiecesEach, most), body});
}

}  // namespace heed
