// The default number of threads, tested with artificial control groups.
#include "core/thread_pool.h"
#include "reference/temporary_folder.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

namespace heed::detail {
namespace {

namespace fs = std::filesystem;

class Processors : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    spill(root_ / path, text);
  }
  std::optional<double> quota() const { return processor_quota(root_); }
  TemporaryFolder root_;
};

TEST_F(Processors, NoControlGroupsNoQuota) {
  EXPECT_EQ(quota(), std::nullopt);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(Processors, TheLeastQuotaOfAGroupAndThoseAroundIt) {
  write("proc/self/cgroup", "0::/box/job\n");
  write("sys/fs/cgroup/box/job/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 4.0);
  write("sys/fs/cgroup/box/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("sys/fs/cgroup/box/job/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(Processors, TheFirstVersionToo) {
  write("proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/\nnonsense\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(quota(), 2.5);
}

TEST_F(Processors, OnlyThoseTheProcessMayRunOn) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const int all = available_processors();
  EXPECT_GE(all, 1);
  EXPECT_LE(all, CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(static_cast<unsigned>(first), &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(first), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(available_processors(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST_F(Processors, ThreadsKeepToOneWhereTheEnvironmentAsksForIt) {
  const char* const before = std::getenv("OMP_PROC_BIND");
  const std::string kept = before == nullptr ? "" : before;
  const int all = available_processors();
  const auto with = [](const char* value) {  // number of processors available to a bound thread
    setenv("OMP_PROC_BIND", value, 1);
    int processors = 0;
    std::thread([&] {
      bind_if_asked(3);
      cpu_set_t set;
      processors = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    }).join();
    return processors;
  };
  EXPECT_EQ(with("close"), 1);
  EXPECT_GE(with("false"), all);
  before == nullptr ? unsetenv("OMP_PROC_BIND") : setenv("OMP_PROC_BIND", kept.c_str(), 1);
}

TEST_F(Processors, TheEnvironmentSaysHowManyThreads) {
  const char* const before = std::getenv("OMP_NUM_THREADS");
  const std::string kept = before == nullptr ? "" : before;
  const auto with = [](const char* value) {
    setenv("OMP_NUM_THREADS", value, 1);
    return default_threads();
  };
  EXPECT_EQ(with("7"), 7);
  EXPECT_EQ(with("6,2"), 6);
  for (const char* wrong : {"", "0", "-3", "many", "3x"}) EXPECT_EQ(with(wrong), available_processors());
  before == nullptr ? unsetenv("OMP_NUM_THREADS") : setenv("OMP_NUM_THREADS", kept.c_str(), 1);
}

}  // namespace
}  // namespace heed::detail
