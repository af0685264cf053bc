// Errors and assertions. `Error` is for errors that the caller or a file caused (a bad file, a wrong shape);
// HEED_ASSERT is for heed's own bugs and never checks input.
#pragma once

#include <stdexcept>
#include <string>

#include "heed/export.h"

namespace HEED_API heed {

/// Thrown for errors that the caller or a file caused. The message has the form
/// `where: expected X, got Y (what to do)`.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown for a bug of heed: an assertion failed. It is not an Error, so that code which handles wrong input
/// does not take it for one. The call had no result; objects that it changed must not be used any more. In a
/// destructor, or on a thread of the program that does not catch it, it ends the process.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Thrown by a call whose `stop` flag became true while it ran. It is not an Error: nothing was wrong.
class Canceled : public std::runtime_error {
 public:
  Canceled() : std::runtime_error("canceled: the caller set the stop flag") {}
};

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* message, const char* file, int line);
}

}  // namespace heed

/// Throws InternalError if `condition` is false, which is a bug of heed. Always on: it costs one branch.
#define HEED_ASSERT(condition, message)                                                        \
  do {                                                                                         \
    if (!(condition)) heed::detail::assertion_failed(#condition, message, __FILE__, __LINE__); \
  } while (false)
