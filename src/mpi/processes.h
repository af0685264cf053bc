// The processes that a launcher started, joined by MPI. Not part of libheed: the command alone is linked with
// MPI.
#pragma once

#include <memory>
#include <string>

#include "distributed/launch.h"
#include "heed/distributed/communicator.h"

namespace heed::mpi {

/// The MPI library that heed is linked with, e.g. "Open MPI 4.1.4"; empty if it was built without.
std::string library();

/// Joins the processes of `launch`, or returns a SingleProcess if there is one. Throws Error if heed was
/// built without MPI, if MPI sees another number of processes than the launcher says, or if the processes'
/// heed is not the same (`version`, executable, byte order). A peer that does not answer within
/// HEED_PEER_TIMEOUT seconds (default 1800) is an error of the operation that waits for it.
std::unique_ptr<Communicator> join_processes(const Launch& launch, const std::string& version);

}  // namespace heed::mpi
