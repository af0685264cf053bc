// Cancelling: calls that may take long take a `stop` flag, and throw this once it is true.
#pragma once

#include "heed/error.h"

namespace heed {

/// Thrown by a call whose `stop` flag became true while it ran.
class Cancelled : public Error {
 public:
  Cancelled() : Error("cancelled: the caller set the stop flag") {}
};

}  // namespace heed
