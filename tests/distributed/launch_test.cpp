// What launchers say, and how processes divide a machine.
#include "distributed/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "heed/threads.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class LaunchTest : public ::testing::Test {
 protected:
  static constexpr const char* kVariables[] = {
      "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE",    "PMI_RANK",
      "SLURM_NTASKS",         "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"};
  void SetUp() override {
    for (const char* name : kVariables) ::unsetenv(name);
  }
  void TearDown() override { SetUp(); }
};

TEST_F(LaunchTest, WithoutALauncherThereIsOneProcess) {
  EXPECT_EQ(current_launch().size, 1);
  EXPECT_EQ(current_launch().variable, "");
}

TEST_F(LaunchTest, ReadsTheVariablesOfEveryLauncher) {
  ::setenv("SLURM_STEP_NUM_TASKS", "3", 1);
  ::setenv("SLURM_PROCID", "2", 1);
  EXPECT_EQ(current_launch().size, 3);
  EXPECT_EQ(current_launch().rank, 2);
  ::setenv("PMI_SIZE", "5", 1);
  EXPECT_EQ(current_launch().size, 5);
  ::setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  ::setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  EXPECT_EQ(current_launch().size, 4);
  EXPECT_EQ(current_launch().rank, 1);
  EXPECT_EQ(current_launch().variable, "OMPI_COMM_WORLD_SIZE");
}

TEST_F(LaunchTest, ABatchScriptIsOneProcess) {
  ::setenv("SLURM_NTASKS", "8", 1);
  EXPECT_EQ(current_launch().size, 1);
}

TEST_F(LaunchTest, WhatIsNoNumberDoesNotCount) {
  ::setenv("OMPI_COMM_WORLD_SIZE", "four", 1);
  EXPECT_EQ(current_launch().size, 1);
}

TEST(Processors, AreDividedWithoutOverlapOrGap) {
  const std::vector<int> machine{0, 4, 1, 5, 2};
  EXPECT_THAT(processors_of(machine, 0, 2), ElementsAre(0, 4, 1));
  EXPECT_THAT(processors_of(machine, 1, 2), ElementsAre(5, 2));
  EXPECT_THAT(processors_of(machine, 0, 1), ElementsAre(0, 4, 1, 5, 2));
}

TEST(Processors, AreSharedByMoreProcessesEvenly) {
  const std::vector<int> machine{0, 1};
  EXPECT_THAT(processors_of(machine, 0, 4), ElementsAre(0));
  EXPECT_THAT(processors_of(machine, 1, 4), ElementsAre(0));
  EXPECT_THAT(processors_of(machine, 2, 4), ElementsAre(1));
  EXPECT_THAT(processors_of(machine, 3, 4), ElementsAre(1));
}

TEST(Processors, AProcessAloneKeepsThem) {
  SingleProcess alone;
  const int before = threads();
  EXPECT_THAT(divide_processors(alone, 3), HasSubstr("1 processes on 1 machine"));
  EXPECT_EQ(threads(), 3);
  set_threads(before);
}

TEST(BuildIdentity, NamesVersionExecutableAndByteOrder) {
  const std::string text = build_identity("1.2.3");
  EXPECT_THAT(text, HasSubstr("heed 1.2.3\n"));
  EXPECT_THAT(text, HasSubstr("-endian"));
  EXPECT_EQ(text, build_identity("1.2.3"));
}

}  // namespace
}  // namespace heed
