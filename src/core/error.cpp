#include "heed/error.h"

#include <cstdio>
#include <cstdlib>

namespace heed::detail {

void assertion_failed(const char* condition, const char* message, const char* file, int line) {
  std::fprintf(stderr, "heed: internal error: %s (%s) at %s:%d\n", message, condition, file, line);
  std::abort();
}

}  // namespace heed::detail
