// Errors of the standard library do not say what failed; their type and the state of stdout do.
#include "cli/terminal/failures.h"

#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "heed/error.h"

namespace heed::cli {

int exit_status(const std::exception& error) {
  constexpr int kFailed = 1, kInternalError = 70;  // EX_SOFTWARE of sysexits.h
  return dynamic_cast<const InternalError*>(&error) != nullptr ? kInternalError : kFailed;
}

std::string failure(const std::exception& error) {
  if (dynamic_cast<const InternalError*>(&error) != nullptr)
    return std::string(error.what()) + " (a bug of heed: please report it)";
  // A container that is asked for more elements than can be addressed throws length_error.
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      dynamic_cast<const std::length_error*>(&error) != nullptr)
    return "memory: not enough for this work (make the batch or the input smaller)";
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return file->path1().string() + ": cannot be used (" + file->code().message() + ")";
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    const std::string reason = system->code().message();
    if (std::ferror(stdout) != 0) return "stdout: cannot write the results (" + reason + ")";
    if (system->code() == std::errc::resource_unavailable_try_again)
      return "threads: cannot start another (" + reason + "; use fewer with --threads)";
    return std::string("system: ") + system->what();
  }
  return error.what();
}

}  // namespace heed::cli
