// Jobs of several heed processes on this machine, started by mpirun, for the tests of what they do.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>

#include "command.h"
#include "reference/tolerance.h"

namespace heed::cli_test {

inline constexpr const char* kMpiexec = HEED_MPIEXEC;  // empty: built without MPI

// `mpirun -n N heed --threads 1 WORDS...`, several of them joined by ":".
struct Group {
  int processes = 1;
  Words words;
  std::string command = HEED_COMMAND;
};

inline Words mpirun(const std::vector<Group>& groups) {
  Words all{kMpiexec, "--oversubscribe", "--bind-to", "none"};
  for (const Group& group : groups) {
    if (&group != groups.data()) all.push_back(":");
    all.insert(all.end(), {"-n", std::to_string(group.processes), group.command, "--threads", "1"});
    all.insert(all.end(), group.words.begin(), group.words.end());
  }
  return all;
}

class Job {
 public:
  Job(Words words, const std::map<std::string, std::string>& environment = {},
      const std::string& input = "") {
    spill(folder_ / "in", input);
    process_ = ::fork();
    if (process_ != 0) return;
    ::setpgid(0, 0);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      ::setenv(name, "1", 1);
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // Open MPI's
    if (std::freopen((folder_ / "in").c_str(), "r", stdin) == nullptr ||
        std::freopen((folder_ / "out").c_str(), "w", stdout) == nullptr ||
        std::freopen((folder_ / "err").c_str(), "w", stderr) == nullptr)
      ::_exit(127);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ~Job() {
    if (process_ < 0) return;
    for (const pid_t p : heeds()) ::kill(p, SIGKILL);
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Waits, and kills what runs for longer than `seconds`.
  Result finish(int seconds = 300) {
    Result result;
    int status = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (::waitpid(process_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "the job did not end within " << seconds << " s: " << slurp(folder_ / "err");
        return result;
      }
      ::usleep(20000);
    }
    process_ = -1;
    result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    result.out = slurp(folder_ / "out");
    result.err = slurp(folder_ / "err");
    return result;
  }
  pid_t launcher() const { return process_; }

  // The job's heed processes by their rank in the environment.
  std::vector<pid_t> heeds() const {
    std::map<int, pid_t> by_rank;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ifstream status(entry.path() / "stat");
      std::string pid, command, state;
      long parent = 0;
      status >> pid >> command >> state >> parent;
      if (parent != process_) continue;
      const std::string environment = slurp(entry.path() / "environ");
      const std::string rank = "OMPI_COMM_WORLD_RANK=";
      if (const std::size_t at = environment.find(rank); at != std::string::npos)
        by_rank[std::atoi(environment.c_str() + at + rank.size())] = std::atoi(name.c_str());
    }
    std::vector<pid_t> pids;
    for (const auto& [rank, pid] : by_rank) pids.push_back(pid);
    return pids;
  }

 private:
  Folder folder_;
  pid_t process_ = -1;
};

class Processes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (*kMpiexec == '\0') GTEST_SKIP() << "built without MPI";
  }

  // A run of 12 steps without dropout, so that it is the same on any number of processes.
  static Words training(const std::string& output, const Words& more = {}) {
    Words words = tiny_training();
    for (const char* setting : {"model.dropout=0", "train.steps=12", "train.clip_norm=1",
                                "train.accumulate=2", "eval.every=6", "checkpoint.every=4"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), {"--output", output});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static Result train(int processes, const std::string& output, const Words& more = {}) {
    Job job(mpirun({{processes, training(output, more)}}));
    const Result result = job.finish();
    EXPECT_EQ(result.status, 0) << result.err;
    return result;
  }
  static std::vector<Json> log_of(const std::string& output) {
    return json_lines(slurp(output + "/log.jsonl"));
  }

  // How far a number in line `step` of two logs may be apart, as a share of it: what is added up in another
  // order differs by the roundings of the tokens so far. Each step of these tests has at most 512 tokens.
  static double roundings(std::int64_t step) { return reference::tolerance<float>(512 * step); }
  // Of weights and products in bf16: a unit of its last place, in which all other roundings are lost.
  static double bf16_roundings(std::int64_t) { return 1.0 / 128; }
  // Processes that share the optimizer's state add up the same numbers in the same order; their norm is f64.
  static double none(std::int64_t) { return 1e-12; }

  // Checks that two logs have the same steps, losses, norms and scores, to `tolerance` of a step.
  static void expect_same_curve(const std::string& a, const std::string& b,
                                double (*tolerance)(std::int64_t) = roundings) {
    const std::vector<Json> first = log_of(a), second = log_of(b);
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      ASSERT_EQ(first[i].at("step"), second[i].at("step"));
      for (const char* key : {"loss", "grad_norm", "tokens", "dev_loss"}) {
        ASSERT_EQ(first[i].contains(key), second[i].contains(key));
        if (!first[i].contains(key)) continue;
        const double one = first[i].at(key), other = second[i].at(key);
        EXPECT_NEAR(one, other, tolerance(first[i].at("step")) * std::max(std::abs(one), 1.0))
            << key << " in line " << i + 1 << " of " << b;
      }
    }
  }

  // Expects that a run of two or three processes learns as that of one.
  static void expect_same_curves(const Folder& folder, Words words) {
    words.insert(words.end(), {"--output", folder / "1"});
    output_of(words);
    for (const int n : {2, 3}) {
      words.back() = folder / std::to_string(n);
      const Result result = Job(mpirun({{n, words}})).finish();
      ASSERT_EQ(result.status, 0) << result.err;
      expect_same_curve(folder / "1", words.back());
    }
  }
};

}  // namespace heed::cli_test
