// The message of a failed assertion.
#include "heed/error.h"

namespace heed::detail {

void assertion_failed(const char* condition, const char* message, const char* file, int line) {
  throw InternalError("internal error: " + std::string(message) + " (" + condition + ") at " + file + ":" +
                      std::to_string(line));
}

}  // namespace heed::detail
