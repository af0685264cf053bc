#include "core/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "core/fork_safe_mutex.h"
#include "core/processors.h"

namespace heed::detail {
namespace {

/// How long a thread spins before it sleeps: about as long as waking it takes. The steps of a model follow
/// each other within microseconds, so they find their threads awake; and a thread that another program has
/// displaced from its processor soon gets a free one.
constexpr std::chrono::microseconds kSpin{50};

constexpr int kMaxHelpers = 255;  // per call

/// The phase of a pool thread. Its state consists of this and, in the higher bits, the number of offers made
/// to it.
enum Phase : std::uint32_t {
  awake,     // free, and polling for an offer
  asleep,    // free
  reserved,  // a caller is writing an offer
  offered,   // not started yet; can be withdrawn
  running,
  awaited,  // running, and the caller sleeps until it ends
  ended,
};
constexpr std::uint32_t kPhases = 8;

constexpr Phase phase(std::uint32_t state) { return static_cast<Phase>(state % kPhases); }
constexpr std::uint32_t in_phase(std::uint32_t state, Phase to) { return state / kPhases * kPhases + to; }
constexpr bool is_free(std::uint32_t state) { return phase(state) == awake || phase(state) == asleep; }

struct alignas(64) Worker {
  std::atomic<std::uint32_t> state{awake};
  int member = 0;
  const FunctionRef<void(int)>* share = nullptr;
  std::thread thread;
  std::atomic<Worker*> next{nullptr};
};

/// An offer. `state` is the worker's state when the offer was made.
struct Offer {
  Worker* worker;
  std::uint32_t state;
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

/// Waits for an offer and returns the state with it, or the final state if the pool is closing.
std::uint32_t wait_for_offer(Worker& worker) {
  std::uint32_t state = awake;
  const auto called = [&] {
    state = worker.state.load(std::memory_order_acquire);
    return phase(state) == offered || phase(state) == ended;
  };
  while (!spin_until(called)) {
    if (phase(state) == reserved) {
      std::this_thread::yield();
    } else if (phase(state) == asleep ||
               worker.state.compare_exchange_strong(state, in_phase(state, asleep))) {
      worker.state.wait(in_phase(state, asleep));
    }
  }
  return state;
}

void serve(Worker& worker, int number) {
  pthread_setname_np(pthread_self(), ("heed-" + std::to_string(number)).c_str());
  bind_if_asked(number);
  self = &worker;
  for (;;) {
    std::uint32_t state = wait_for_offer(worker);
    if (phase(state) == ended) return;
    if (!worker.state.compare_exchange_strong(state, in_phase(state, running))) continue;  // withdrawn
    (*worker.share)(worker.member);
    const std::uint32_t before = worker.state.exchange(in_phase(state, awake));
    if (phase(before) == awaited) worker.state.notify_all();
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
    auto worker = std::make_unique<Worker>();
    try {
      worker->thread = std::thread(serve, std::ref(*worker), pool.made + 1);
    } catch (const std::system_error&) {
      pool.refused = true;
      return;
    }
    Worker* const kept = worker.release();
    place->store(kept);
    place = &kept->next;
  }
}

/// Makes an offer to a worker. Returns its new state, or nullopt if the worker is not free.
std::optional<std::uint32_t> make_offer(Worker& worker, const FunctionRef<void(int)>& share, int member) {
  std::uint32_t state = worker.state.load(std::memory_order_relaxed);
  if (!is_free(state) || !worker.state.compare_exchange_strong(state, in_phase(state + kPhases, reserved)))
    return {};
  worker.share = &share;
  worker.member = member;
  const std::uint32_t offer = in_phase(state + kPhases, offered);
  worker.state.store(offer);
  if (phase(state) == asleep) worker.state.notify_one();
  return offer;
}

/// Withdraws an offer, or waits until its execution has ended.
void withdraw_or_wait(const Offer& offer) {
  std::atomic<std::uint32_t>& state = offer.worker->state;
  std::uint32_t now = offer.state;
  if (state.compare_exchange_strong(now, in_phase(offer.state, awake))) return;
  const auto left = [&] {
    now = state.load(std::memory_order_acquire);
    return now / kPhases != offer.state / kPhases || (phase(now) != running && phase(now) != awaited);
  };
  while (!spin_until(left)) {
    if (phase(now) == awaited || state.compare_exchange_strong(now, in_phase(now, awaited)))
      state.wait(in_phase(now, awaited));
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
    for (std::uint32_t state = worker.state;; state = worker.state) {
      if (is_free(state) && worker.state.compare_exchange_strong(state, in_phase(state, ended))) break;
      std::this_thread::sleep_for(kSpin);
    }
    worker.state.notify_one();
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

void run_shared(int team, int limit, FunctionRef<void(int member)> share) {
  if (closed) return share(0);
  Pool& here = pool();
  const int others = here.computing.fetch_add(1);
  const int wanted = std::min({team - 1, limit - 1 - others, kMaxHelpers});
  std::array<Offer, kMaxHelpers> offers;
  int made = 0, seen = 0;
  for (std::atomic<Worker*>* place = &here.first; made < wanted; ++seen) {
    if (place->load(std::memory_order_acquire) == nullptr) {
      if (seen < limit - 1) grow(here, std::min(limit - 1, seen + wanted - made));
      if (place->load(std::memory_order_acquire) == nullptr) break;
    }
    Worker& worker = *place->load(std::memory_order_acquire);
    if (const auto state = make_offer(worker, share, made + 1))
      offers[static_cast<std::size_t>(made++)] = {&worker, *state};
    place = &worker.next;
  }
  here.computing += made;
  share(0);
  for (int i = 0; i < made; ++i) withdraw_or_wait(offers[static_cast<std::size_t>(i)]);
  here.computing -= made + 1;
}

}  // namespace heed::detail
