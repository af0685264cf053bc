// parallel_for splits its range into pieces, several per thread. Each thread first takes the pieces of its
// own part, which are adjacent and the same in every call of equal size, then the remaining pieces of others.
// A thread that lost its processor delays the others by at most one piece.
#include "heed/threads.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>

#include "core/processors.h"
#include "core/thread_pool.h"
#include "heed/error.h"

namespace heed {
namespace {

constexpr std::int64_t kPiecesEach = 4;
constexpr int kMostParts = 16;

std::atomic<int> thread_count{0};  // 0: not determined yet

thread_local bool in_parallel = false;

/// Marks this thread as running a body for the lifetime of the object.
class InParallel {
 public:
  InParallel() { in_parallel = true; }
  ~InParallel() { in_parallel = false; }
  InParallel(const InParallel&) = delete;
  InParallel& operator=(const InParallel&) = delete;
};

/// The pieces of [0, count), divided into one part per thread.
class Pieces {
 public:
  Pieces(std::int64_t count, std::int64_t pieces, int team)
      : count_(count), pieces_(pieces), parts_(std::min(team, kMostParts)) {
    for (int i = 0; i < parts_; ++i)
      part(i).next = pieces * i / parts_, part(i).end = pieces * (i + 1) / parts_;
  }

  /// Calls body(begin, end) for pieces until none is left, starting with the member's own part.
  template <class Body>
  void work(int member, Body body) {
    for (int i = 0; i < parts_; ++i) {
      Part& from = part((member + i) % parts_);
      while (from.next.load(std::memory_order_relaxed) < from.end) {
        const std::int64_t piece = from.next.fetch_add(1, std::memory_order_relaxed);
        if (piece < from.end) body(count_ * piece / pieces_, count_ * (piece + 1) / pieces_);
      }
    }
  }

 private:
  struct alignas(64) Part {
    std::atomic<std::int64_t> next;
    std::int64_t end;
  };
  Part& part(int i) { return storage_[static_cast<std::size_t>(i)]; }

  std::int64_t count_, pieces_;
  int parts_;
  std::array<Part, kMostParts> storage_;
};

/// Keeps the exception of the lowest range, regardless of which thread fails first.
class Failure {
 public:
  void keep(std::int64_t begin) {
    const std::lock_guard lock(mutex_);
    if (error_ == nullptr || begin < begin_) error_ = std::current_exception(), begin_ = begin;
  }
  void pass_on() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  std::int64_t begin_ = 0;
};

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
  if (in_parallel) return 1;
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
  if (team <= 1 || in_parallel) return body(0, 0, count);
  const std::int64_t most = count / std::max<std::int64_t>(grain, 1);
  Pieces pieces(count, std::max(team, std::min(team * kPiecesEach, most)), static_cast<int>(team));
  Failure failure;
  detail::run_shared(static_cast<int>(team), threads(), [&](int member) {
    const InParallel here;
    pieces.work(member, [&](std::int64_t begin, std::int64_t end) {
      try {
        body(member, begin, end);
      } catch (...) {  // rethrown in the caller, on whichever thread it occurred
        failure.keep(begin);
      }
    });
  });
  failure.pass_on();
}

}  // namespace heed
