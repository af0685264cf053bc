// heed without MPI: one process is itself, and a launcher's processes are refused instead of each training
// alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/error.h"
#include "mpi/processes.h"
#include "reference/error.h"

namespace heed::mpi {
namespace {

TEST(WithoutMpi, OneProcessIsAlone) {
  EXPECT_EQ(library(), "");
  EXPECT_EQ(join_processes({}, "test")->size(), 1);
  EXPECT_EQ(join_processes({1, 0, "OMPI_COMM_WORLD_SIZE"}, "test")->size(), 1);
}

TEST(WithoutMpi, ALaunchersProcessesAreRefused) {
  for (const int rank : {0, 1}) {
    EXPECT_ERROR(join_processes({2, rank, "SLURM_STEP_NUM_TASKS"}, "test"),
                 "processes: expected one, since this heed was built without MPI, "
                 "got 2 (SLURM_STEP_NUM_TASKS)");
  }
}

}  // namespace
}  // namespace heed::mpi
