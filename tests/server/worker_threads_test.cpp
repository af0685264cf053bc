// Works and calls in slices: order, errors and their end.
#include "server/worker_threads.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

#include "core/pause_point.h"
#include "heed/error.h"

namespace heed::server {
namespace {

TEST(PausedCall, RunsFromPauseToPause) {
  std::vector<int> seen;
  PausedCall call([&](const PausedCall::Pause& pause) {
    for (int i = 0; i < 3; ++i) {
      seen.push_back(i);
      pause();
    }
    seen.push_back(3);
  });
  EXPECT_TRUE(seen.empty());
  for (std::size_t i = 1; i <= 3; ++i) {
    EXPECT_TRUE(call.resume());
    EXPECT_EQ(seen.size(), i);
  }
  EXPECT_FALSE(call.resume());
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_FALSE(call.resume());
}

TEST(PausedCall, ThrowsWhatTheCallThrows) {
  PausedCall call([](const PausedCall::Pause& pause) {
    pause();
    throw Error("wrong");
  });
  EXPECT_TRUE(call.resume());
  EXPECT_THROW(call.resume(), Error);
  EXPECT_FALSE(call.resume());
}

TEST(PausedCall, EndsTheCallThatPauses) {
  bool canceled = false;
  {
    PausedCall call([&](const PausedCall::Pause& pause) {
      try {
        pause();
      } catch (const Canceled&) {
        canceled = true;
        throw;
      }
    });
    EXPECT_TRUE(call.resume());
  }
  EXPECT_TRUE(canceled);
  const PausedCall never([](const PausedCall::Pause&) { FAIL(); });
}

TEST(PausedCall, PausesAfterASlice) {
  int slices = 0;
  const auto begin = std::chrono::steady_clock::now();
  PausedCall call([&](const PausedCall::Pause&) {
    while (std::chrono::steady_clock::now() - begin < 3 * kSlice) pause_point();
  });
  while (call.resume()) ++slices;
  EXPECT_GE(slices, 1);
  EXPECT_LE(slices, 3);
}

// Until `go_on`, the work waits at its pause points for others.
TEST(WorkQueue, WhatTakesLongGivesWay) {
  std::vector<int> done;
  std::atomic<bool> go_on{false};
  {
    WorkQueue queue(8);
    for (const int number : {1, 2}) {
      ASSERT_TRUE(queue.post([&, number] {
        while (!go_on) pause_point();
        done.push_back(number);
      }));
    }
    std::promise<void> worked;
    ASSERT_TRUE(queue.post([&] {
      done.push_back(3);
      worked.set_value();
    }));
    worked.get_future().wait();
    go_on = true;
  }
  EXPECT_EQ(done.front(), 3);
  EXPECT_EQ(done.size(), 3u);
}

// As each that is open holds memory and a thread.
TEST(WorkQueue, FewLongOnesAreOpenAtATime) {
  std::atomic<bool> go_on{false};
  std::atomic<std::size_t> begun{0};
  {
    WorkQueue queue(32);
    const auto work = [&] {
      ++begun;
      while (!go_on) pause_point();
    };
    for (int i = 0; i < 12; ++i) ASSERT_TRUE(queue.post(work, true));
    for (int i = 0; i < 6; ++i) {
      std::promise<void> worked;
      ASSERT_TRUE(queue.post([&] { worked.set_value(); }));
      worked.get_future().wait();  // a short one goes before those that wait
      EXPECT_LE(begun, WorkQueue::kMostLong);
    }
    go_on = true;
  }
  EXPECT_EQ(begun, 12u);
}

// When each thread holds a work that is paused, and the next of these has not woken yet.
TEST(WorkQueue, WhatComesBetweenTwoTurnsIsTaken) {
  for (int trial = 0; trial < 12; ++trial) {
    auto queue = std::make_unique<WorkQueue>(8);
    std::atomic<bool> go_on{false};
    std::promise<std::chrono::steady_clock::time_point> second;
    ASSERT_TRUE(queue->post([&] {
      while (!go_on) pause_point();
    }));
    ASSERT_TRUE(queue->post([&] {
      second.set_value(std::chrono::steady_clock::now());
      while (!go_on) pause_point();
    }));
    const auto turn_ends = second.get_future().get() + kSlice + std::chrono::microseconds(4 * trial);
    while (std::chrono::steady_clock::now() < turn_ends) {
    }
    std::promise<void> worked;
    ASSERT_TRUE(queue->post([&] { worked.set_value(); }));
    const bool was_taken =
        worked.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    if (!was_taken) (void)queue.release();  // it would never end
    ASSERT_TRUE(was_taken) << trial;
    go_on = true;
  }
}

TEST(WorkQueue, OneWorksAtATime) {
  std::atomic<int> working{0}, most{0};
  {
    WorkQueue queue(100);
    for (int i = 0; i < 100; ++i) {
      queue.post([&, i] {
        const auto begin = std::chrono::steady_clock::now();
        most = std::max(most.load(), ++working);
        --working;
        while (i % 25 == 0 && std::chrono::steady_clock::now() - begin < 2 * kSlice) pause_point();
        most = std::max(most.load(), ++working);
        --working;
      });
    }
  }
  EXPECT_EQ(most, 1);
}

TEST(WorkQueue, RefusesWhatIsTooMuch) {
  std::promise<void> begun, end;
  WorkQueue queue(1);
  ASSERT_TRUE(queue.post([&] {
    begun.set_value();
    end.get_future().wait();
  }));
  begun.get_future().wait();
  EXPECT_TRUE(queue.post([] {}));
  EXPECT_FALSE(queue.post([] {}));
  end.set_value();
}

}  // namespace
}  // namespace heed::server
