// Joins and leaves the processes of a job.
#include "cli/terminal/processes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <thread>

#include "cli/terminal/terminal.h"
#include "distributed/launch.h"
#include "heed/version.h"
#include "kernels/machine.h"
#include "mpi/processes.h"

namespace heed::cli {
namespace {

constexpr std::array<std::string_view, 4> kSharing{"train", "translate", "embed", "classify"};

// How long a process that fails lets the first one speak, which may have failed for the same reason.
constexpr auto kAfterFirst = std::chrono::milliseconds(500);

std::unique_ptr<Communicator>& job() {
  static std::unique_ptr<Communicator> communicator;
  return communicator;
}

// What others than the first process print goes to a file in memory, which collect_results() empties.
void keep_results() {
  const int file = ::memfd_create("heed-results", MFD_CLOEXEC);
  if (file < 0 || ::dup2(file, STDOUT_FILENO) < 0)
    throw Error(fmt::format("processes: cannot keep results ({})", std::strerror(errno)));
  ::close(file);
}

std::string take_results() {
  const off_t size = ::lseek(STDOUT_FILENO, 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::max<off_t>(size, 0)), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count =
        ::pread(STDOUT_FILENO, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (count <= 0) throw Error("processes: cannot read the results that were kept");
    done += static_cast<std::size_t>(count);
  }
  if (::ftruncate(STDOUT_FILENO, 0) != 0 || ::lseek(STDOUT_FILENO, 0, SEEK_SET) != 0)
    throw Error("processes: cannot empty the results that were kept");
  return text;
}

}  // namespace

std::string version_text() {
  const std::string mpi = mpi::library();
  return fmt::format("heed {}\ninstructions: {}\nprocesses: {}", HEED_VERSION, kernels::target_name(),
                     mpi.empty() ? "one only (built without MPI)" : "many, over " + mpi);
}

void join_processes(const CLI::App& command, const Globals& globals) {
  const Launch launch = current_launch();
  if (launch.size <= 1) return;
  if (std::find(kSharing.begin(), kSharing.end(), command.get_name()) == kSharing.end()) {
    throw Error(fmt::format(
        "heed {}: expected one process, got {} ({}) (commands that share their work among processes: {})",
        command.get_name(), launch.size, launch.variable, fmt::join(kSharing, ", ")));
  }
  job() = mpi::join_processes(launch, HEED_VERSION);
  const std::string report = divide_processors(*job(), globals.threads);
  if (!job()->is_first()) keep_results();
  if (job()->is_first() && !globals.quiet) print_stderr(report);
}

Communicator& processes() {
  static SingleProcess single;
  return job() ? *job() : single;
}

void collect_results() {
  flush_results();
  if (!job()) return;
  const std::vector<std::string> all = job()->gather(job()->is_first() ? "" : take_results());
  if (!job()->is_first()) return;
  for (const std::string& text : all) print_stdout("{}", text);
  flush_results();
}

void leave_processes() { job() = nullptr; }

void end_other_processes(int status) {
  if (job()) job()->end_all(status);
}

void report_failure(int status, const std::string& message) {
  const int rank = job() ? job()->rank() : current_launch().rank;
  if (rank == 0) {
    print_stderr(printable("heed: error: " + message));
  } else {  // a launcher that sees this process end may end the first one before it speaks
    std::this_thread::sleep_for(kAfterFirst);
    if (job()) print_stderr(printable(fmt::format("heed: error: process {}: {}", rank, message)));
  }
  end_other_processes(status);
}

}  // namespace heed::cli
