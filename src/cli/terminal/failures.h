// Exit status and messages of errors, of those that are not heed's own as well.
#pragma once

#include <exception>
#include <string>

namespace heed::cli {

/// Returns the exit status of the command: 70 for a bug of heed, else 1.
int exit_status(const std::exception& error);
/// Returns the message of an error of the standard library, of the system or of heed.
std::string failure(const std::exception& error);

}  // namespace heed::cli
