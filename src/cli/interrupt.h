// Ctrl-C while a command works: what it has written stays whole, and the exit status is 130.
#pragma once

#include <atomic>

namespace heed::cli {

/// From the first call on, Ctrl-C sets this flag instead of ending the process, and a second Ctrl-C ends it.
/// Where the process was started with SIGINT ignored, it stays ignored.
const std::atomic<bool>& interrupt_flag();

/// Whether the flag is set; catches nothing by itself.
bool interrupted();

}  // namespace heed::cli
