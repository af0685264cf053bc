// A call in pieces: order, errors and its end.
#include "server/worker_threads.h"

#include <gtest/gtest.h>

#include <vector>

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

}  // namespace
}  // namespace heed::server
