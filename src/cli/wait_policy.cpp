// OpenMP's threads spin while they wait, by default for long. With as many threads as processors and another
// program busy, they spin against the very thread they wait for; threads that sleep at once lose time at
// every step on an idle machine. Spinning briefly suits both: `heed translate` of 200 lines on two processors
// took 2.6 s with sleeping threads and 1.7 s with these or OpenMP's default; beside three busy programs 5.4 s
// with sleeping threads, 6.6 s with these, 15.5 s with ten times the spinning.
#include "cli/wait_policy.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace heed::cli {

void spin_briefly(char** argv) {
  // Threads bound to processors, too, are left as they are: this one is bound already, and the program it
  // becomes would have that one processor.
  for (const char* name :
       {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"}) {
    if (std::getenv(name) != nullptr) return;
  }
  // The OpenMP library has read its settings by now, so the program starts once more; where it cannot, the
  // default serves.
  std::error_code error;  // by its own path, so that it keeps its name among the processes
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error && setenv("GOMP_SPINCOUNT", "20000", 1) == 0) execv(program.c_str(), argv);
}

}  // namespace heed::cli
