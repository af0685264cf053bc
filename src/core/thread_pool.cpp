#include "core/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "core/fork_safe_mutex.h"
#include "heed/error.h"

namespace heed::detail {
namespace {

/// How long a thread spins before it sleeps. The steps of a model follow each other within microseconds, but
/// for the parts that one thread computes alone, so they find their threads awake. A thread that sleeps on a
/// processor where another program runs, whatever its priority, may get it back only when that program's time
/// slice ends, milliseconds later; so it is awake for longer than a slice.
constexpr std::chrono::microseconds kSpin{5000};
constexpr std::chrono::microseconds kNap{50};  // between looks at a caller that works for longer than that

constexpr int kMaxHelpers = 255;  // per call

constexpr int kMostVictims = 16;  // whose pieces a pool thread takes after its own

/// The pieces of a member's part that nobody has taken, in one word: the number of the region of work,
/// whether the member has begun, the next piece and the end.
struct Claim {
  std::uint32_t region = 0;  // 31 bits
  bool begun = false;
  std::uint16_t next = 0, end = 0;

  std::uint64_t word() const {
    return std::uint64_t{region} << 33 | std::uint64_t{begun} << 32 | std::uint64_t{next} << 16 | end;
  }
  static Claim of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> 33), (word >> 32 & 1) != 0,
            static_cast<std::uint16_t>(word >> 16), static_cast<std::uint16_t>(word)};
  }
};

struct Region;

/// A thread of the pool. On many processors, a cache line that another core has written takes as long to read
/// as a small product: what a thread needs to begin lies in one line, which only its holder writes while the
/// thread waits, and with plain stores; and what only callers use lies in another.
struct Worker {
  alignas(64) std::atomic<std::uint64_t> claim{0};
  std::atomic<std::uint32_t> finished{0};  // twice the last region that it has left, plus 1: awaited
  std::uint32_t member = 0;
  SharedWork work{0, 0, kNothing};
  Region* region = nullptr;

  enum Holding : std::uint32_t { unheld, held, asleep };
  alignas(64) std::atomic<std::uint32_t> holding{unheld};
  std::uint32_t regions = 1;  // the number of the region it begins next; the holder's
  std::atomic<Worker*> next{nullptr};
  std::thread thread;

  static constexpr auto kNothing = [](std::int64_t, std::int64_t, std::int64_t) {};
};

struct Pool {
  const int processors;  // that this process may use
  std::atomic<Worker*> first{nullptr};
  std::atomic<int> computing{0};  // callers and the threads that work for them
  ForkSafeMutex growing;
  int made = 0;             // guarded by `growing`, like the next member
  bool refused = false;     // the system could not create more threads
  Pool* parents = nullptr;  // the pool before fork(); its threads do not exist here

  explicit Pool(int usable) : processors(usable) {}
};

std::atomic<Pool*> current{nullptr};
std::atomic<bool> closed{false};
thread_local const Worker* self = nullptr;
thread_local bool sharing = false;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Returns true if `done` becomes true within kSpin. If there are more threads than processors, does not
/// spin, since that would keep the others from running.
template <class Done>
bool spin_until(Done done) {
  if (done()) return true;
  if (threads() > current.load()->processors) return false;
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      pause();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

/// A caller's work while threads may be running it. What they read of it, the parts of the others included,
/// they read between their first piece and the store to `finished`. The caller neither leaves nor lets go of
/// any worker before all that have begun have finished: a part that another caller could fill meanwhile would
/// be run with this one's body.
struct Region {
  std::atomic<std::uint64_t> own{0};  // the caller's part
  int members = 1;
  std::array<Worker*, kMaxHelpers> workers;  // of which there are members - 1

  std::mutex mutex;
  std::exception_ptr error;  // of the first piece that failed, whichever thread failed first
  std::int64_t failed = 0;

  std::atomic<std::uint64_t>& part(int member) {
    return member == 0 ? own : workers[static_cast<std::size_t>(member - 1)]->claim;
  }
  void keep(std::int64_t piece) {
    const std::lock_guard lock(mutex);
    if (error == nullptr || piece < failed) error = std::current_exception(), failed = piece;
  }
};

/// Takes a piece of a part; -1: there is none.
std::int64_t take(std::atomic<std::uint64_t>& part, bool begins = false) {
  std::uint64_t word = part.load(std::memory_order_acquire);
  for (;;) {
    Claim claim = Claim::of(word);
    if (claim.next >= claim.end) return -1;
    const std::int64_t piece = claim.next++;
    claim.begun |= begins;
    if (part.compare_exchange_weak(word, claim.word(), std::memory_order_acq_rel)) return piece;
  }
}

/// Runs `piece` and what else there is of the member's part, then of the parts of `victims` others.
void run_pieces(Region& region, const SharedWork& work, int member, std::int64_t piece, int victims) {
  for (int i = 0;;) {
    for (; piece >= 0; piece = take(region.part((member + i) % region.members))) {
      try {
        work.body(member, work.count * piece / work.pieces, work.count * (piece + 1) / work.pieces);
      } catch (...) {  // rethrown in the caller, on whichever thread it occurred
        region.keep(piece);
      }
    }
    if (++i > victims) return;
    piece = take(region.part((member + i) % region.members));
  }
}

/// Waits until there is a piece to begin with, and takes it; -1: the pool is closing.
std::int64_t wait_for_piece(Worker& worker) {
  for (;;) {
    std::int64_t piece = -1;
    if (spin_until([&] { return (piece = take(worker.claim, true)) >= 0; })) return piece;
    std::uint32_t holding = Worker::unheld;
    const bool sleeps = worker.holding.compare_exchange_strong(holding, Worker::asleep);
    if (closed) return -1;
    if (sleeps) {
      worker.holding.wait(Worker::asleep);
    } else {
      std::this_thread::sleep_for(kNap);  // the holder works on what is left
    }
  }
}

void serve(Worker& worker, int number) {
  pthread_setname_np(pthread_self(), ("heed-" + std::to_string(number)).c_str());
  bind_if_asked(number);
  self = &worker;
  sharing = true;
  for (;;) {
    const std::int64_t piece = wait_for_piece(worker);
    if (piece < 0) return;
    const std::uint32_t number_of_region = Claim::of(worker.claim.load(std::memory_order_relaxed)).region;
    Region& region = *worker.region;
    run_pieces(region, worker.work, static_cast<int>(worker.member), piece,
               std::min(region.members - 1, kMostVictims));
    if (worker.finished.exchange(2 * number_of_region, std::memory_order_acq_rel) % 2 == 1)
      worker.finished.notify_all();
  }
}

/// Blocks signals, which the program's own threads must handle.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Grows the pool to `count` threads, or as many as the system allows.
void grow(Pool& pool, int count) {
  const std::lock_guard lock(pool.growing);
  if (pool.refused || closed) return;
  std::atomic<Worker*>* place = &pool.first;
  while (Worker* worker = place->load()) place = &worker->next;
  const SignalsBlocked blocked;
  for (; pool.made < count; ++pool.made) {
    try {
      auto worker = std::make_unique<Worker>();
      worker->thread = std::thread(serve, std::ref(*worker), pool.made + 1);
      place->store(worker.get());
      place = &worker.release()->next;
    } catch (const std::exception&) {  // no thread, or no memory for one
      pool.refused = true;
      return;
    }
  }
}

/// Makes this thread the holder of a worker, if it has none; `was_asleep`: it must be woken.
bool hold(Worker& worker, bool& was_asleep) {
  std::uint32_t holding = worker.holding.load(std::memory_order_relaxed);
  while (holding == Worker::unheld || holding == Worker::asleep) {
    was_asleep = holding == Worker::asleep;
    if (worker.holding.compare_exchange_weak(holding, Worker::held, std::memory_order_acquire)) return true;
  }
  return false;
}

/// Waits until the worker has left the region, if it has begun; there is no piece left for it to begin with.
void wait_for(Worker& worker) {
  const Claim claim = Claim::of(worker.claim.load(std::memory_order_acquire));
  if (!claim.begun) return;
  worker.regions = (worker.regions + 1) & 0x7FFFFFFFU;
  std::uint32_t now = 0;
  const auto left = [&] {
    now = worker.finished.load(std::memory_order_acquire);
    return now / 2 == claim.region;
  };
  while (!spin_until(left)) {
    if (now % 2 == 1 || worker.finished.compare_exchange_strong(now, now + 1)) worker.finished.wait(now | 1U);
  }
}

/// Ends the pool's threads at process exit, or when the library is unloaded. Afterward, callers work alone.
class Closer {
 public:
  ~Closer() {
    closed = true;
    Pool* const pool = current.load();
    if (pool == nullptr) return;
    { const std::lock_guard lock(pool->growing); }  // wait until no thread is being created
    for (Worker* worker = pool->first; worker != nullptr; worker = worker->next) {
      if (worker == self) continue;  // this thread is the one that ends the process
      end(*worker);
    }
  }

 private:
  static void end(Worker& worker) {
    std::uint32_t holding = Worker::asleep;
    if (worker.holding.compare_exchange_strong(holding, Worker::held)) worker.holding.notify_one();
    worker.thread.join();
  }
};

ForkSafeMutex making;

Pool& pool() {
  if (Pool* const made = current) return *made;
  const std::lock_guard lock(making);  // a fork waits, so that no child finds the static object half made
  if (current == nullptr) {
    bind_if_asked(0);
    current = new Pool(available_processors());
    static const Closer closer;  // created after everything that the work needs, so destroyed before it
  }
  return *current;
}

}  // namespace

void forget_threads() {
  Pool* const parents = current;
  if (parents == nullptr) return;
  auto* const pool = new Pool(parents->processors);
  pool->parents = parents;
  current = pool;
}

bool is_sharing() { return sharing; }

void run_shared(int team, int limit, const SharedWork& work) {
  Region region;
  std::array<bool, kMaxHelpers> asleep;
  int made = 0;
  Pool* const open = closed ? nullptr : &pool();
  if (open != nullptr) {
    Pool& here = *open;
    const int others = here.computing.fetch_add(1);
    const int wanted = std::min({team - 1, limit - 1 - others, kMaxHelpers});
    int seen = 0;
    for (std::atomic<Worker*>* place = &here.first; made < wanted; ++seen) {
      if (place->load(std::memory_order_acquire) == nullptr) {
        if (seen < limit - 1) grow(here, std::min(limit - 1, seen + wanted - made));
        if (place->load(std::memory_order_acquire) == nullptr) break;
      }
      Worker& worker = *place->load(std::memory_order_acquire);
      if (hold(worker, asleep[static_cast<std::size_t>(made)]))
        region.workers[static_cast<std::size_t>(made++)] = &worker;
      place = &worker.next;
    }
    here.computing += made;
  }
  region.members = made + 1;
  const auto part = [&](int member) {
    const auto from = [&](int i) { return static_cast<std::uint16_t>(work.pieces * i / region.members); };
    return Claim{.next = from(member), .end = from(member + 1)};
  };
  region.own = part(0).word();
  for (int i = 0; i < made; ++i) {
    Worker& worker = *region.workers[static_cast<std::size_t>(i)];
    worker.work = work;
    worker.member = static_cast<std::uint32_t>(i + 1);
    worker.region = &region;
    Claim claim = part(i + 1);
    claim.region = worker.regions;
    worker.claim.store(claim.word(), std::memory_order_release);
    if (asleep[static_cast<std::size_t>(i)]) worker.holding.notify_one();
  }
  sharing = true;
  run_pieces(region, work, 0, take(region.own), made);
  sharing = false;
  const auto workers = std::span(region.workers).first(static_cast<std::size_t>(made));
  for (Worker* const worker : workers) wait_for(*worker);
  // Only now, since each looks for pieces in the parts of all others until it leaves.
  for (Worker* const worker : workers) worker->holding.store(Worker::unheld, std::memory_order_release);
  if (open != nullptr) open->computing -= made + 1;
  if (region.error != nullptr) std::rethrow_exception(region.error);
}

}  // namespace heed::detail

namespace heed {
namespace {

// parallel_for splits its range into pieces, several per thread, which depend on the size of the call alone.
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
