// Ends whatever a thread computes, also in calls that take no `stop` flag.
#pragma once

#include <atomic>
#include <memory>

#include "heed/export.h"

namespace HEED_API heed {

/// While it exists, the calls of this thread end with Canceled soon after `stop` has become true: before the
/// next part of a layer, text, token or row. `stop` must outlive it. A training that should end with a
/// checkpoint takes TrainOptions::stop instead.
/// Threads: created and destroyed on the thread whose calls it ends.
class StopScope {
 public:
  explicit StopScope(const std::atomic<bool>& stop);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  struct Inside;
  std::unique_ptr<const Inside> inside_;
};

}  // namespace heed
