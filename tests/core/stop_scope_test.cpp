// A computation that asks for no stop flag ends at its next pause point.
#include "heed/core/stop_scope.h"

#include <gtest/gtest.h>

#include "core/pause_point.h"
#include "heed/error.h"

namespace heed {
namespace {

TEST(StopScope, EndsAtAPausePoint) {
  std::atomic<bool> stop = false;
  {
    const StopScope scope(stop);
    EXPECT_NO_THROW(pause_point());
    stop = true;
    EXPECT_THROW(pause_point(), Canceled);
  }
  EXPECT_NO_THROW(pause_point());
}

TEST(StopScope, TheOuterOneHoldsInside) {
  std::atomic<bool> outer = true, inner = false;
  const StopScope around(outer);
  const StopScope scope(inner);
  EXPECT_THROW(pause_point(), Canceled);
}

}  // namespace
}  // namespace heed
