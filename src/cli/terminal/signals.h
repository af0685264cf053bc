// Signals that ask a command to end: what it has written stays intact, and the exit status is 128 + the
// signal.
#pragma once

#include <atomic>

namespace heed::cli {

/// From the first call on, Ctrl-C, SIGTERM and SIGHUP set this flag instead of ending the process; a second
/// Ctrl-C or SIGTERM ends it at once. A signal that was ignored when the command started (nohup, a background
/// job) stays ignored.
const std::atomic<bool>& stop_flag();

/// Returns true if the flag is set. Installs no handlers.
bool stop_requested();

/// Takes the request back, for a command that goes on after Ctrl-C; the next one counts as a first.
void forget_stop();

/// Returns the signal that set the flag.
int stop_signal();

}  // namespace heed::cli
