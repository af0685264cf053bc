#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "heed/files/file.h"
#include "heed/io/safetensors.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(AtomicDirectory, AppearsOnlyWhenCommittedAndComplete) {
  const TemporaryFolder folder;
  const std::filesystem::path target = folder / "a" / "step";
  {
    AtomicDirectory directory(target.string() + "/");
    spill(directory.path() / "plain", "1");
    std::filesystem::create_directory(directory.path() / "inner");
    write_file(directory.path() / "inner" / "file", "2");
    EXPECT_FALSE(std::filesystem::exists(target));
    EXPECT_EQ(remove_stale_temporaries(folder / "a"), 0u) << "a folder being written is not stale";
    directory.commit();
  }
  EXPECT_TRUE(is_complete(target));
  EXPECT_THAT(listing(target), UnorderedElementsAre("plain", "inner", "complete"));
  EXPECT_EQ(slurp(target / "inner" / "file"), "2");
  EXPECT_THAT(listing(folder / "a"), ElementsAre("step"));
}

TEST(AtomicDirectory, ReplacesAnOldFolderAsAWhole) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "step");
  spill(folder / "step" / "old", "1");
  EXPECT_FALSE(is_complete(folder / "step"));
  AtomicDirectory directory(folder / "step");
  spill(directory.path() / "new", "2");
  directory.commit();
  EXPECT_THAT(listing(folder / "step"), UnorderedElementsAre("new", "complete"));
  EXPECT_THAT(listing(folder.path()), ElementsAre("step"));
}

TEST(AtomicDirectory, LeavesNothingWhenNotCommitted) {
  const TemporaryFolder folder;
  {
    AtomicDirectory directory(folder / "step");
    spill(directory.path() / "file", "1");
  }
  EXPECT_THAT(listing(folder.path()), IsEmpty());
  EXPECT_FALSE(is_complete(folder / "step"));
}

TEST(AtomicDirectory, RefusesToReplaceAFile) {
  const TemporaryFolder folder;
  spill(folder / "file", "1");
  EXPECT_ERROR(AtomicDirectory directory(folder / "file"), "expected a folder");
  EXPECT_ERROR(AtomicDirectory directory(folder / "file" / "inner"), "Not a directory");
  EXPECT_EQ(slurp(folder / "file"), "1");
}

TEST(AtomicDirectory, RemovingTakesTheNameAwayFirst) {
  const TemporaryFolder folder;
  { AtomicDirectory(folder / "step").commit(); }
  EXPECT_TRUE(is_complete(folder / "step"));
  remove_directory(folder / "step");
  EXPECT_THAT(listing(folder.path()), IsEmpty());
  remove_directory(folder / "step");
}

TEST(StaleTemporaries, OnlyWhatWeNamedAndNobodyHoldsIsRemoved) {
  const TemporaryFolder folder;
  spill(folder / "model.tmp-12-3", "left by a killed process");
  std::filesystem::create_directory(folder / "step.tmp-1-0");
  spill(folder / "step.tmp-1-0" / "file", "1");
  spill(folder / "notes.tmp-old", "the user's own");
  spill(folder / "x.tmp-1", "the user's own");
  EXPECT_EQ(remove_stale_temporaries(folder.path()), 2u);
  EXPECT_THAT(listing(folder.path()), UnorderedElementsAre("notes.tmp-old", "x.tmp-1"));
  EXPECT_EQ(remove_stale_temporaries(folder / "none"), 0u);
}

TEST(StaleTemporaries, WritingClearsThoseOfItsOwnTarget) {
  const TemporaryFolder folder;
  spill(folder / "page.html.tmp-12-3", "left by a killed process");
  spill(folder / "page.html.tmp-old", "the user's own");
  spill(folder / "other.html.tmp-12-3", "another's");
  std::filesystem::create_directory(folder / "step.tmp-1-0");
  AtomicFile running(folder / "page.html");
  write_file(folder / "page.html", "new");
  running.write("newer");
  running.commit();
  EXPECT_EQ(slurp(folder / "page.html"), "newer");
  { AtomicDirectory(folder / "step").commit(); }
  EXPECT_THAT(listing(folder.path()),
              UnorderedElementsAre("page.html", "page.html.tmp-old", "other.html.tmp-12-3", "step"));
}

// Does what a training run does: replaces a checkpoint folder under a fixed name, and a file.
void save(const TemporaryFolder& folder, int step) {
  AtomicDirectory directory(folder / "latest");
  const Tensor numbers = Tensor::full({3000}, step, DType::f64);
  save_safetensors(directory.path() / "model.safetensors", {{"a", numbers}, {"b", numbers}});
  write_file(directory.path() / "step", std::to_string(step));
  directory.commit();
  save_safetensors(folder / "average.safetensors", {{"a", numbers}, {"b", numbers}});
}

void expect_all_equal(const std::filesystem::path& path, double value) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  ASSERT_EQ(file.tensors().size(), 2u);
  for (const TensorInfo& info : file.tensors()) {
    const std::vector<double> numbers = file.get(info.name).to_vector<double>();
    ASSERT_EQ(std::count(numbers.begin(), numbers.end(), value), 3000);
  }
}

TEST(AtomicDirectory, SurvivesKillAtAnyMoment) {
  const TemporaryFolder folder(TemporaryFolder::fast_parent());
  Choices choices(20);
  const auto start = std::chrono::steady_clock::now();
  save(folder, 1);
  const auto one =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  int last = 1;
  double last_average = 1;
  // On a busy machine the children come less far each time, so more rounds are needed.
  for (int round = 0; round < 50 || (last <= 10 && round < 1000); ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int step = last + 1;; ++step) save(folder, step);
    }
    const auto longest = static_cast<std::size_t>(4 * one.count() + 2000);
    std::this_thread::sleep_for(std::chrono::microseconds(choices.below(longest)));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer stopped by itself";
    ASSERT_TRUE(is_complete(folder / "latest")) << "a complete checkpoint was lost";
    const int step = std::stoi(slurp(folder / "latest" / "step"));
    ASSERT_GE(step, last);
    expect_all_equal(folder / "latest" / "model.safetensors", step);
    last = step;
    const double average =
        SafetensorsFile::open(folder / "average.safetensors").get("a").to_vector<double>()[0];
    expect_all_equal(folder / "average.safetensors", average);
    ASSERT_GE(average, last_average);
    ASSERT_LE(average, step);
    last_average = average;
  }
  EXPECT_GT(last, 10) << "killed too early to have tested anything";
  remove_stale_temporaries(folder.path());
  EXPECT_THAT(listing(folder.path()), UnorderedElementsAre("latest", "average.safetensors"));
}

}  // namespace
}  // namespace heed
