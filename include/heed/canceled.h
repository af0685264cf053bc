// Canceling: calls that may take long take a `stop` flag, and throw this once it is true.
#pragma once

#include <stdexcept>

#include "heed/export.h"

namespace HEED_API heed {

/// Thrown by a call whose `stop` flag became true while it ran. It is not an Error: nothing was wrong.
class Canceled : public std::runtime_error {
 public:
  Canceled() : std::runtime_error("canceled: the caller set the stop flag") {}
};

}  // namespace heed
