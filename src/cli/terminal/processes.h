// The processes of a job (mpirun -n N heed ...): joins them before a command runs, and ends all when one
// fails.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/cli.h"
#include "heed/distributed/communicator.h"

namespace heed::cli {

/// Text of --version: heed's, and what runs several processes.
std::string version_text();

/// Joins the processes that a launcher started, divides the processors among them, and reports that on
/// stderr. Throws Error for several processes of a command that does not share its work.
void join_processes(const CLI::App& command, const Globals& globals);

/// The processes of this job; a single one if they were not joined.
Communicator& processes();

/// Prints on the first process what all have printed since the last call, in the order of ranks. All call it.
void collect_results();

/// Leaves the others, who must all do so: afterward processes() is a single one.
void leave_processes();

/// Prints `heed: error: MESSAGE`, and ends the job's other processes. Of processes that fail together, the
/// first one speaks.
void report_failure(int status, const std::string& message);
void end_other_processes(int status);

/// Leaves the processes at the end of main, when nothing else uses them.
class LeaveProcesses {
 public:
  LeaveProcesses() = default;
  ~LeaveProcesses() { leave_processes(); }
  LeaveProcesses(const LeaveProcesses&) = delete;
  LeaveProcesses& operator=(const LeaveProcesses&) = delete;
};

}  // namespace heed::cli
