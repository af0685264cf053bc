// Signals that ask a command to end: what it has written stays whole, and the exit status is 128 + the
// signal.
#pragma once

#include <atomic>

namespace heed::cli {

/// From the first call on, Ctrl-C, SIGTERM and SIGHUP set this flag instead of ending the process, and a
/// second Ctrl-C or SIGTERM ends it at once. A signal that was ignored when the command began (nohup, a job
/// in the background) stays ignored.
const std::atomic<bool>& stop_flag();

/// Whether the flag is set; catches nothing by itself.
bool stop_requested();

/// The signal that set the flag.
int stop_signal();

}  // namespace heed::cli
