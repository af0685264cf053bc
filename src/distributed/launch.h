// How a launcher (mpirun, srun) started this process, and how processes share a machine's processors.
#pragma once

#include <string>
#include <vector>

#include "heed/distributed/communicator.h"

namespace heed {

/// The contents of the launcher's environment variables.
struct Launch {
  int size = 1;  ///< number of processes
  int rank = 0;
  std::string variable{};  ///< that gives the size; empty: there is no launcher
};

/// Reads the variables of Open MPI (OMPI_COMM_WORLD_SIZE), of MPICH and Intel MPI (PMI_SIZE) and of Slurm's
/// steps (SLURM_STEP_NUM_TASKS; those of a batch script, which is one process, do not count).
Launch current_launch();

/// One line for each thing in which the processes of a job must agree: version, executable, byte order.
std::string build_identity(const std::string& version);

/// Divides the processors of each machine among its processes: where all of them may use the same ones, this
/// process takes its part, binds itself to it and computes with as many threads; where the launcher bound
/// them, it computes with the threads that fit. With `threads` above 0, only that number is set. Returns the
/// report: one line for each machine.
std::string divide_processors(Communicator& world, int threads);

/// The processors of process `index` of `count` on a machine: a part each of `processors`, or, where there
/// are fewer processors than processes, one each in turn.
std::vector<int> processors_of(const std::vector<int>& processors, int index, int count);

}  // namespace heed
