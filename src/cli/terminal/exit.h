// How the command ends: the signals that ask it to, and the exit status and messages of errors, of those that
// are not heed's own as well. What a command has written stays intact.
#pragma once

#include <atomic>
#include <exception>
#include <string>

namespace heed::cli {

/// From the first call on, Ctrl-C, SIGTERM and SIGHUP set this flag instead of ending the process; a second
/// Ctrl-C or SIGTERM ends it at once. A signal that was ignored when the command started (nohup, a background
/// job) stays ignored.
const std::atomic<bool>& stop_flag();

/// From now on, SIGHUP asks a server to read its files again, and sets the stop flag only where the terminal
/// of the command has closed. Call it after stop_flag().
void catch_hangups();
/// Whether SIGHUP came since the last call, and the command is to go on.
bool take_hangup();

/// Returns true if the flag is set. Installs no handlers.
bool stop_requested();

/// Takes the request back, for a command that goes on after Ctrl-C; the next one counts as a first.
void forget_stop();

/// Returns the signal that set the flag.
int stop_signal();

/// From now on, reading beyond the end to which another program has cut a mapped file ends the process with
/// status 1 and one line that names the file, in place of SIGBUS.
void report_cut_files();

/// Returns the exit status of the command: 70 for a bug of heed, else 1.
int exit_status(const std::exception& error);
/// Returns the message of an error of the standard library, of the system or of heed.
std::string failure(const std::exception& error);

}  // namespace heed::cli
