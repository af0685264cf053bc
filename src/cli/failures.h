// Messages for errors that are not heed's own.
#pragma once

#include <exception>
#include <string>

namespace heed::cli {

/// Returns the message of an error of the standard library, of the system or of heed.
std::string failure(const std::exception& error);

}  // namespace heed::cli
