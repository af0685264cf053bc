// What heed throws, and how it checks itself. `Error` is what the user caused (a bad file, a wrong shape);
// HEED_ASSERT is for our own bugs and never guards input.
#pragma once

#include <stdexcept>
#include <string>

namespace heed {

/// Thrown for whatever the caller or a file caused. The message reads
/// `where: expected X, got Y (what to do)`.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* message, const char* file, int line);
}

}  // namespace heed

/// Stops the program when heed itself is wrong. Always on: its cost is a branch.
#define HEED_ASSERT(condition, message)                                                        \
  do {                                                                                         \
    if (!(condition)) heed::detail::assertion_failed(#condition, message, __FILE__, __LINE__); \
  } while (false)
