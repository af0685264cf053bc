#include "heed/core/stop_scope.h"

#include "core/pause_point.h"
#include "heed/error.h"

namespace heed {

struct StopScope::Inside {
  PauseScope scope;
};

StopScope::StopScope(const std::atomic<bool>& stop)
    : inside_(new Inside{PauseScope([&stop] {
        if (stop) throw Canceled();
      })}) {}

StopScope::~StopScope() = default;

}  // namespace heed
