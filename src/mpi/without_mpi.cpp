// heed built without MPI: one process, and an error where a launcher started several.
#include <fmt/format.h>

#include "heed/error.h"
#include "mpi/processes.h"

namespace heed::mpi {

std::string library() { return {}; }

std::unique_ptr<Communicator> join_processes(const Launch& launch, const std::string&) {
  if (launch.size == 1) return std::make_unique<SingleProcess>();
  throw Error(fmt::format(
      "processes: expected one, since this heed was built without MPI, got {} ({}) (install libopenmpi-dev, "
      "configure and build again; or start heed without the launcher)",
      launch.size, launch.variable));
}

}  // namespace heed::mpi
