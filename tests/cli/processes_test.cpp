// heed over several processes, started by mpirun on this machine: the same curve on any number of them, and
// what happens when one of them fails.
#include <sys/resource.h>

#include <stdexcept>

#include "processes.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

TEST_F(Processes, TrainTheSameCurveAndTheSameBits) {
  const Folder folder;
  ASSERT_EQ(run(training(folder / "1")).status, 0);
  for (const int n : {2, 3, 4}) {
    const std::string output = folder / std::to_string(n);
    const Result result = train(n, output);
    EXPECT_THAT(result.err, HasSubstr(std::to_string(n) + " processes on 1 machine"));
    expect_same_curve(folder / "1", output);
    EXPECT_EQ(lines(result.out).size(), 3u) << result.out;  // one report
  }
  train(3, folder / "again");
  EXPECT_TRUE(slurp(folder / "3/model.safetensors") == slurp(folder / "again/model.safetensors"));
  train(3, folder / "sharded", {"--set", "train.shard_optimizer=true"});
  expect_same_curve(folder / "3", folder / "sharded", none);
}

TEST_F(Processes, CheckpointsContinueOnAnyNumberOfProcesses) {
  const Folder folder;
  const Words schedule{"--set", "train.schedule=constant"};  // does not depend on the run's length
  ASSERT_EQ(run(training(folder / "whole", schedule)).status, 0);
  const std::string output = folder / "parts", sharded = "train.shard_optimizer=true";
  train(2, output,
        {schedule[0], schedule[1], "--set", "train.steps=4", "--set", "eval.every=2", "--set", sharded});
  for (const auto& [n, steps] : {std::pair(3, "8"), std::pair(1, "10"), std::pair(4, "12")}) {
    const Words more{"--resume",
                     schedule[0],
                     schedule[1],
                     "--set",
                     std::string("train.steps=") + steps,
                     "--set",
                     n == 3 ? "train.shard_optimizer=false" : sharded};
    if (n == 1) {
      ASSERT_EQ(run(training(output, more)).status, 0);
    } else {
      train(n, output, more);
    }
  }
  std::map<int, double> losses;
  for (const Json& line : log_of(folder / "whole"))
    if (line.contains("loss")) losses[line.at("step")] = line.at("loss");
  int steps = 0;
  for (const Json& line : log_of(output)) {
    if (!line.contains("loss")) continue;
    EXPECT_EQ(line.at("step"), ++steps);
    EXPECT_NEAR(line.at("loss").get<double>(), losses[steps], roundings(steps) * losses[steps])
        << "step " << steps;
  }
  EXPECT_EQ(steps, 12);
}

long bytes_after(const std::string& text, const char* before) {
  const std::size_t at = text.find(before);
  return at == std::string::npos ? -1 : std::atol(text.c_str() + at + std::strlen(before));
}

TEST_F(Processes, ReportTheBytesOfTheOptimizersState) {
  const Folder folder;
  const Result whole = train(2, folder / "whole", {"--set", "train.steps=1"});
  const Result sharded =
      train(2, folder / "sharded", {"--set", "train.steps=1", "--set", "train.shard_optimizer=true"});
  const long weights = bytes_after(whole.err, "each process: ");
  EXPECT_GT(weights, 0) << whole.err;
  EXPECT_EQ(bytes_after(whole.err, " weights, "), weights);
  EXPECT_EQ(bytes_after(whole.err, " of gradients, "), 2 * weights);
  EXPECT_NEAR(bytes_after(sharded.err, " of gradients, "), weights, 0.03 * weights);
}

TEST_F(Processes, ShareBf16Weights) {
  const Folder folder;
  const Words narrow{"--set", "train.precision=bf16", "--set", "train.weights=bf16"},
      sharded{"--set", "train.precision=bf16",      "--set", "train.weights=bf16",
              "--set", "train.shard_optimizer=true"};
  ASSERT_EQ(run(training(folder / "1", narrow)).status, 0);
  for (const int n : {2, 3}) {
    const std::string plain = folder / (std::to_string(n) + " plain"),
                      parts = folder / (std::to_string(n) + " parts");
    train(n, plain, narrow);
    const Result result = train(n, parts, sharded);
    expect_same_curve(folder / "1", plain, bf16_roundings);
    expect_same_curve(plain, parts, none);
    EXPECT_TRUE(slurp(plain + "/model.safetensors") == slurp(parts + "/model.safetensors"));
    const long weights = bytes_after(result.err, "each process: "),
               all = bytes_after(result.err, "weights, "), state = bytes_after(result.err, " of gradients, "),
               matrices = (all - weights) / 2;
    EXPECT_GT(matrices, all / 6);
    EXPECT_NEAR(static_cast<double>(state), static_cast<double>(2 * all + 4 * matrices) / n, 0.03 * state);
    // Gradients go out in f32, and matrices come back in bf16.
    const double sent = log_of(parts).front().at("bytes_sent"),
                 before = log_of(plain).front().at("bytes_sent");
    EXPECT_NEAR(sent / before, static_cast<double>(all + weights) / static_cast<double>(2 * all), 0.03);
  }
  // Stopped on 2 processes, and on with 3.
  Words first = sharded;
  first.insert(first.end(),
               {"--set", "train.schedule=constant", "--set", "train.steps=4", "--set", "eval.every=2"});
  train(2, folder / "resumed", first);
  first.insert(first.end(), {"--set", "train.steps=8", "--resume"});
  train(3, folder / "resumed", first);
  EXPECT_EQ(log_of(folder / "resumed").back().at("step"), 8);
}

TEST_F(Processes, MustAgree) {
  const Folder folder;
  const Words words = training(folder / "run");
  Words other = words;
  other.insert(other.end(), {"--set", "train.lr=0.5"});
  Result result = Job(mpirun({{1, words}, {1, other}})).finish();
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("train: expected the same recipe in all processes, got train.lr = "));
  EXPECT_FALSE(fs::exists(folder / "run"));

  const std::string copy = folder / "heed";
  fs::copy_file(HEED_COMMAND, copy);
  std::ofstream(copy, std::ios::app) << "another build";
  result = Job(mpirun({{1, words}, {1, words, copy}})).finish();
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("processes: expected the same build of heed in all processes, got the "
                                    "executable with hash "));
}

TEST_F(Processes, OthersThanTheLaunchersAreRefused) {
  Result result = Job(mpirun({{2, {"models", marian()}}})).finish();
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("heed models: expected one process, got 2 (OMPI_COMM_WORLD_SIZE)"));
  ::setenv("PMI_SIZE", "3", 1);  // the launcher of another MPI
  const Folder folder;
  result = run(training(folder / "run"));
  ::unsetenv("PMI_SIZE");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("processes: expected 3, as PMI_SIZE says, got 1 from MPI"));
}

TEST_F(Processes, ShareLinesAndKeepTheirOrder) {
  std::string input;
  for (int i = 0; i < 23; ++i) input += i % 3 == 0 ? "a b c\n" : i % 3 == 1 ? "c a\n" : "b b d a c\n";
  input += "\n";  // an empty line
  for (const Words& words :
       {Words{"translate", "--model", tiny_model(), "--max-new-tokens", "8"},
        Words{"translate", "--model", tiny_model(), "--max-new-tokens", "8", "--json"}}) {
    const std::string alone = output_of(words, input);
    for (const int n : {2, 4}) {
      const Result shared = Job(mpirun({{n, words}}), {}, input).finish();
      EXPECT_EQ(shared.status, 0) << shared.err;
      EXPECT_EQ(shared.out, alone) << n;
    }
  }
  // Fewer lines than processes; as arguments.
  const Words words{"translate", "--model", tiny_model(), "--max-new-tokens", "8", "a b c", "c b a"};
  EXPECT_EQ(Job(mpirun({{3, words}})).finish().out, run(words).out);
}

TEST_F(Processes, ShareTextsOfEncoders) {
  const Folder folder;
  const std::string input = "one two\nthree\nfour five six\n";
  const Words classify{"classify", "--model", encoder("bert-classify")};
  const Words embed{"embed", "--model", encoder("bert")};
  for (const Words& words : {classify, embed}) {
    const std::string alone = output_of(words, input);
    const Result shared = Job(mpirun({{2, words}}), {}, input).finish();
    EXPECT_EQ(shared.status, 0) << shared.err;
    EXPECT_EQ(shared.out, alone);
  }
  Words file = embed;
  file.insert(file.end(), {"--output", folder / "one.npy"});
  ASSERT_EQ(run(file, input).status, 0);
  file.back() = folder / "two.npy";
  EXPECT_EQ(Job(mpirun({{2, file}}), {}, input).finish().status, 0);
  EXPECT_TRUE(slurp(folder / "one.npy") == slurp(folder / "two.npy"));
}

// A run that lasts until it is stopped; returns once its second checkpoint is there.
Words endless(const std::string& output) {
  Words words = tiny_training();
  for (const char* setting : {"train.steps=1000000", "eval.every=0", "eval.metric=loss"})
    words.insert(words.end(), {"--set", setting});
  words.insert(words.end(), {"--quiet", "--output", output});
  return words;
}

void wait_for_checkpoint(const std::string& output) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!fs::exists(output + "/checkpoints/8/complete") && std::chrono::steady_clock::now() < deadline)
    ::usleep(2000);
}

void expect_gone(const std::vector<pid_t>& processes) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (const pid_t p : processes) {
    while (::kill(p, 0) == 0 && std::chrono::steady_clock::now() < deadline) ::usleep(20000);
    EXPECT_NE(::kill(p, 0), 0) << "process " << p << " is an orphan";
  }
}

void expect_resumable(const std::string& output) {
  const Result resumed = run([&] {
    Words words = endless(output);
    words.insert(words.end(), {"--resume", "--set", "train.steps=8"});
    return words;
  }());
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  for (const std::string& name : listing(output)) EXPECT_THAT(name, Not(HasSubstr(".tmp-")));
}

// An endless run of `count` processes that has a checkpoint.
struct EndlessRun {
  explicit EndlessRun(int count, const std::map<std::string, std::string>& environment = {})
      : job(mpirun({{count, endless(folder / "run")}}), environment) {
    wait_for_checkpoint(folder / "run");
    heeds = job.heeds();
    if (heeds.size() != static_cast<std::size_t>(count)) throw std::runtime_error("no run to disturb");
  }
  void expect_all_gone() const {
    expect_gone(heeds);
    expect_resumable(folder / "run");
  }
  Folder folder;
  Job job;
  std::vector<pid_t> heeds;
};

TEST_F(Processes, OneThatIsKilledEndsAll) {
  for (const std::size_t victim : {0, 2}) {
    EndlessRun run(3);
    ::kill(run.heeds[victim], SIGKILL);
    const Result result = run.job.finish(20);
    EXPECT_NE(result.status, 0);
    EXPECT_THAT(result.err, HasSubstr("signal 9 (Killed)"));
    run.expect_all_gone();
  }
}

TEST_F(Processes, EndWithTheirLauncher) {
  EndlessRun run(2);
  ::kill(run.job.launcher(), SIGKILL);
  run.job.finish(20);
  run.expect_all_gone();
}

TEST_F(Processes, OneThatHangsEndsAll) {
  EndlessRun run(2, {{"HEED_PEER_TIMEOUT", "3"}});
  ::kill(run.heeds[1], SIGSTOP);
  const Result result = run.job.finish(30);
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("expected an answer within 3 s, got none from process 1"));
  run.expect_all_gone();
}

TEST_F(Processes, AFullDiskOfTheFirstEndsAll) {
  EndlessRun run(2);
  const rlimit none{0, 0};  // no file may grow any more
  ASSERT_EQ(::prlimit(run.heeds[0], RLIMIT_FSIZE, &none, nullptr), 0);
  const Result result = run.job.finish(30);
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("heed: error: "));
  run.expect_all_gone();
}

TEST_F(Processes, ASignalToAllEndsTheRunWithACheckpoint) {
  EndlessRun run(2);
  ::kill(run.heeds[1], SIGINT);  // one is enough
  EXPECT_NE(run.job.finish(30).status, 0);
  const std::int64_t steps = log_of(run.folder / "run").back().at("step");
  EXPECT_TRUE(fs::exists(run.folder / ("run/checkpoints/" + std::to_string(steps) + "/complete")));
  expect_gone(run.heeds);
}

}  // namespace
}  // namespace heed::cli_test
