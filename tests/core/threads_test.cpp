// The thread pool: the guarantees of parallel_for, and how several callers share it. No test depends on
// timing, so a busy machine does not matter: a body that waits, waits for something that another thread is
// certain to do.
#include "heed/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "heed/error.h"
#include "reference/error.h"

namespace heed {
namespace {

using std::int64_t;

/// Sets the number of threads for the duration of a test.
class ThreadCount {
 public:
  explicit ThreadCount(int count) { set_threads(count); }
  ~ThreadCount() { set_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_ = threads();
};

std::vector<std::string> names_of_threads() {
  std::vector<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    if (std::getline(file, name)) names.push_back(name);
  }
  return names;
}
std::size_t threads_of_the_pool() {
  const auto names = names_of_threads();
  return static_cast<std::size_t>(std::count_if(
      names.begin(), names.end(), [](const std::string& name) { return name.rfind("heed-", 0) == 0; }));
}

void sum_squares(int64_t count, std::atomic<int64_t>& sum) {
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum += i * i;
  });
}
int64_t sum_squares(int64_t count) {
  std::atomic<int64_t> sum = 0;
  sum_squares(count, sum);
  return sum;
}
constexpr int64_t squares(int64_t count) { return (count - 1) * count * (2 * count - 1) / 6; }

TEST(Threads, ParallelForCoversEveryIndexOnce) {
  for (const int count : {1, 2, 3, 8, 40}) {
    const ThreadCount threads(count);
    for (const int64_t n : {0, 1, 2, 3, 7, 100, 1003}) {
      for (const int64_t grain : {1, 3, 2000}) {
        std::vector<std::atomic<int>> hits(static_cast<std::size_t>(n));
        parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          EXPECT_LT(begin, end);
          EXPECT_TRUE(end - begin >= grain || end - begin == n);
          for (int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
        });
        for (auto& hit : hits) ASSERT_EQ(hit, 1);
      }
    }
  }
}

TEST(Threads, TheSplitIsTheSameEveryTime) {
  const ThreadCount threads(3);
  const auto split = [] {
    std::vector<std::atomic<int64_t>> ends(500);
    parallel_for(500, 7, [&](int64_t begin, int64_t end) { ends[static_cast<std::size_t>(begin)] = end; });
    return std::vector<int64_t>(ends.begin(), ends.end());
  };
  const auto first = split();
  EXPECT_GT(std::count_if(first.begin(), first.end(), [](int64_t end) { return end > 0; }), 3);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(split(), first);
}

TEST(Threads, AMemberWorksOnOneRangeAtATime) {
  const ThreadCount threads(4);
  for (int round = 0; round < 200; ++round) {
    const int64_t team = team_size(64, 1);
    ASSERT_EQ(team, 4);
    std::vector<std::atomic<int>> inside(4);
    parallel_for_team(team, 64, 1, [&](int64_t member, int64_t, int64_t) {
      auto& here = inside.at(static_cast<std::size_t>(member));
      EXPECT_EQ(++here, 1);
      std::this_thread::yield();
      --here;
    });
  }
}

TEST(Threads, TheFirstFailureReachesTheCallerAndThePoolGoesOn) {
  const ThreadCount threads(4);
  for (int round = 0; round < 100; ++round) {
    std::atomic<int64_t> done = 0;
    const auto fails_late = [&](int64_t begin, int64_t end) {
      done += end - begin;
      if (end > 30) throw Error("range " + std::to_string(begin));
    };
    EXPECT_ERROR(parallel_for(100, 1, fails_late), "range 25");  // 16 ranges: 0, 6, 12, 18, 25, ...
    EXPECT_EQ(done, 100);
    EXPECT_EQ(sum_squares(100), squares(100));
  }
}

TEST(Threads, CallsInsideABodyAreSerial) {
  const ThreadCount threads(4);
  parallel_for(16, 1, [&](int64_t, int64_t) {
    EXPECT_EQ(team_size(1000, 1), 1);
    const auto self = std::this_thread::get_id();
    int calls = 0;
    parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      EXPECT_EQ(end - begin, 1000);
      ++calls;
    });
    EXPECT_EQ(calls, 1);
  });
  EXPECT_EQ(team_size(1000, 1), 4);
}

TEST(Threads, TheNumberIsTheProcesss) {
  const ThreadCount threads(5);
  std::thread([] {
    EXPECT_EQ(heed::threads(), 5);
    set_threads(3);
  }).join();
  EXPECT_EQ(heed::threads(), 3);
  EXPECT_ERROR(set_threads(0), "threads: expected at least 1, got 0");
  EXPECT_EQ(heed::threads(), 3);
}

// A range that waits until all others are done, as if its thread had lost its processor: any other threads do
// the rest.
TEST(Threads, ARangeThatIsHeldUpHoldsUpNoOther) {
  const ThreadCount threads(2);
  for (const int64_t slow : {0, 1, 3, 4, 6, 7}) {
    std::atomic<int> done = 0;
    parallel_for(8, 1, [&](int64_t begin, int64_t) {
      // A single thread reaches the ranges before the slow one itself; wait only for those that another
      // thread must do.
      if (begin == slow) {
        while (done < 7 && threads_of_the_pool() > 0) std::this_thread::yield();
      }
      ++done;
    });
    EXPECT_EQ(done, 8);
  }
}

TEST(Threads, CallersShareOneBudget) {
  // In a separate process, without the threads of other tests.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr std::size_t kCallers = 8;
    constexpr std::size_t limit = 3;
    set_threads(limit);
    std::atomic<bool> wrong = false;
    std::atomic<int> computing = 0, callers = kCallers;
    std::vector<std::thread> requests;
    for (std::size_t caller = 0; caller < kCallers; ++caller) {
      requests.emplace_back([&] {
        for (int round = 0; round < 300; ++round) {
          std::atomic<int64_t> sum = 0;
          parallel_for(64, 1, [&](int64_t begin, int64_t end) {
            if (++computing > static_cast<int>(kCallers + limit) - 1) wrong = true;
            for (int64_t i = begin; i < end; ++i) sum += i * i;
            --computing;
          });
          if (sum != squares(64)) wrong = true;
        }
        --callers;
      });
    }
    while (callers > 0) {
      if (threads_of_the_pool() > limit - 1) wrong = true;
    }
    for (auto& request : requests) request.join();
    _exit(wrong ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// Counts how often each item of a call runs, and remembers a range that is not the call's.
class Hits {
 public:
  explicit Hits(int64_t count) : hits_(static_cast<std::size_t>(count)) {}
  void add(int64_t begin, int64_t end) {
    if (begin < 0 || begin > end || end > static_cast<int64_t>(hits_.size())) {
      outside_ = true;
      return;
    }
    for (int64_t i = begin; i < end; ++i) ++hits_[static_cast<std::size_t>(i)];
  }
  bool each_once() const {
    return !outside_ && std::all_of(hits_.begin(), hits_.end(), [](const auto& hit) { return hit == 1; });
  }

 private:
  std::vector<std::atomic<int>> hits_;
  std::atomic<bool> outside_ = false;
};

// The first caller's last thread is held up in a range while all others are done with theirs; a second caller
// comes, and fills the parts of as many threads as it gets. The first thread goes on when that has happened:
// it must find nothing to do.
TEST(Threads, AThreadThatIsHeldUpTakesNothingOfAnotherCaller) {
  const ThreadCount threads(8);
  for (int round = 0; round < 5; ++round) {
    constexpr int64_t kItems = 12;
    Hits first_hits(kItems), second_hits(kItems);
    std::atomic<int64_t> done = 0, begun = 0, second_begun = 0;
    std::atomic<bool> go_on = false, first_over = false;
    const auto wait_until = [](const auto& is_so) {
      while (!is_so()) std::this_thread::yield();
    };
    std::thread second([&] {
      wait_until([&] { return done == kItems - 1; });
      for (int call = 0; call < 200; ++call) sum_squares(64);  // meets threads that are let go one by one
      parallel_for_team(2, kItems, 1, [&](int64_t member, int64_t begin, int64_t end) {
        if (begin == 0 || (member == 1 && second_begun < 2)) {
          ++second_begun;
          wait_until([&] { return second_begun >= 2; });
          go_on = true;
          wait_until([&] { return first_over.load(); });
        }
        second_hits.add(begin, end);
      });
    });
    std::array<std::atomic<bool>, 3> here{};
    std::atomic<bool> held_up = false;
    parallel_for_team(3, kItems, 1, [&](int64_t member, int64_t begin, int64_t end) {
      if (!here.at(static_cast<std::size_t>(member)).exchange(true)) {  // each of the three begins
        ++begun;
        wait_until([&] { return begun >= 3; });
      }
      if (member == 2 && !held_up.exchange(true)) {
        wait_until([&] { return go_on.load(); });
      }
      first_hits.add(begin, end);
      ++done;
    });
    first_over = true;
    second.join();
    EXPECT_TRUE(first_hits.each_once());
    EXPECT_TRUE(second_hits.each_once());
  }
}

TEST(Threads, EachCallerGetsItsOwnRangesOnce) {
  const ThreadCount threads(8);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (std::uint32_t caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&, caller] {
      std::minstd_rand random(caller + 1);
      for (int round = 0; round < 800; ++round) {
        const int64_t team = 2 + random() % 3, count = 8 + random() % 32;
        const auto wait = random() % 4;
        Hits hits(count);
        const auto body = [&](int64_t begin, int64_t end) {
          hits.add(begin, end);
          if (wait == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
          if (wait == 1) std::this_thread::yield();
        };
        if (round % 2 == 0)
          parallel_for(count, 1, body);
        else
          parallel_for_team(team, count, 1, [&](int64_t, int64_t begin, int64_t end) { body(begin, end); });
        if (!hits.each_once()) ++wrong;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, MoreThreadsThanRangesCanBeCounted) {
  // In a separate process, which ends with the many threads.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    set_threads(70000);
    Hits hits(200000);
    parallel_for(200000, 1, [&](int64_t begin, int64_t end) { hits.add(begin, end); });
    _exit(hits.each_once() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Threads, WhereTheBudgetIsSpentACallerWorksAlone) {
  const ThreadCount threads(2);
  std::atomic<bool> begun = false, over = false;
  std::thread first([&] {
    parallel_for(2, 1, [&](int64_t, int64_t) {
      begun = true;
      while (!over) std::this_thread::yield();
    });
  });
  while (!begun) std::this_thread::yield();
  const auto self = std::this_thread::get_id();
  for (int round = 0; round < 100; ++round) {
    parallel_for(64, 1, [&](int64_t, int64_t) { EXPECT_EQ(std::this_thread::get_id(), self); });
  }
  over = true;
  first.join();
}

TEST(Threads, WorkersHaveNamesAndTakeNoSignals) {
  const ThreadCount threads(2);
  std::atomic<bool> helped = false, blocked = false;
  const auto caller = std::this_thread::get_id();
  while (!helped) {
    parallel_for(2, 1, [&](int64_t, int64_t) {
      if (std::this_thread::get_id() == caller) {
        for (int i = 0; i < 1000 && !helped; ++i) std::this_thread::yield();
        return;
      }
      sigset_t mask;
      pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      blocked = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGTERM) == 1;
      helped = true;
    });
  }
  EXPECT_TRUE(blocked);
  const auto names = names_of_threads();
  EXPECT_EQ(std::count(names.begin(), names.end(), "heed-1"), 1);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGINT), 0);
}

TEST(Threads, AForkedChildComputes) {
  const ThreadCount threads(3);
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(sum_squares(1000), squares(1000));  // so that the parent has pool threads
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);
      bool right = true;
      for (int i = 0; i < 20; ++i) right = right && sum_squares(1000) == squares(1000);
      const pid_t grandchild = fork();
      if (grandchild == 0) _exit(sum_squares(1000) == squares(1000) ? 0 : 1);
      int status = 1;
      waitpid(grandchild, &status, 0);
      _exit(right && status == 0 ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

/// Returns the exit status of a child that calls `leave` after computing.
template <class Leave>
int status_of_leaving(Leave leave) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    sum_squares(1000);
    leave();
    _exit(100);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(Threads, AProcessMayEndFromAnywhere) {
  const ThreadCount threads(3);
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(WEXITSTATUS(status_of_leaving([] { std::exit(7); })), 7);
    EXPECT_EQ(WEXITSTATUS(status_of_leaving([] { std::thread([] { std::exit(8); }).join(); })), 8);
    EXPECT_EQ(WEXITSTATUS(status_of_leaving([] {
                static std::atomic<bool> ends = false;
                parallel_for(100, 1, [](int64_t, int64_t) {  // on whichever thread comes first
                  if (!ends.exchange(true)) std::exit(9);
                });
                for (;;) pause();
              })),
              9);
  }
}

TEST(Threads, AProcessMayEndWhileOthersCompute) {
  const ThreadCount threads(3);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(WEXITSTATUS(status_of_leaving([] {
                static std::atomic<int> calls = 0;
                for (int caller = 0; caller < 2; ++caller) {
                  std::thread([] {
                    for (;; ++calls) sum_squares(1000);
                  }).detach();
                }
                while (calls < 100) std::this_thread::yield();
                std::exit(10);
              })),
              10);
  }
}

TEST(Threads, ManyCallersOfManySizesWhileTheNumberChanges) {
  const ThreadCount threads(4);
  std::atomic<bool> wrong = false;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&, caller] {
      for (int64_t round = 0; round < 1000; ++round) {
        const int64_t n = 1 + (round * 37 + caller * 101) % 300;
        if (sum_squares(n) != squares(n)) wrong = true;
        if (caller == 0) set_threads(1 + static_cast<int>(round % 5));
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_FALSE(wrong);
}

}  // namespace
}  // namespace heed
