#include "heed/files/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "temporary_folder.h"

namespace heed {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(FolderLock, KeepsOthersOutAndNamesTheHolder) {
  const TemporaryFolder folder;
  {
    const FolderLock lock(folder.path());
    EXPECT_THAT(error_of([&] { FolderLock second(folder.path()); }),
                AllOf(HasSubstr(folder.path().string() + ": expected a folder that nobody else writes to"),
                      HasSubstr("in use by process " + std::to_string(::getpid()) + " on ")));
    EXPECT_EQ(listing(folder.path()), std::vector<std::string>{"lock"});
    EXPECT_NO_THROW(lock.check());
  }
  EXPECT_THAT(listing(folder.path()), IsEmpty());
  EXPECT_NO_THROW(FolderLock(folder.path()));
}

TEST(FolderLock, EndsWithAKilledProcess) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const FolderLock lock(folder.path());
    for (;;) ::pause();
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (slurp(folder / "lock").empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_THAT(error_of([&] { FolderLock second(folder.path()); }),
              HasSubstr("process " + std::to_string(child) + " on "));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(listing(folder.path()), std::vector<std::string>{"lock"});
  EXPECT_NO_THROW(FolderLock(folder.path()));
}

TEST(FolderLock, NoticesThatItsFolderIsGone) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "run");
  std::optional<FolderLock> lock(folder / "run");
  std::filesystem::rename(folder / "run", folder / "moved");
  EXPECT_THAT(error_of([&] { lock->check(); }),
              AllOf(HasSubstr((folder / "run").string() + ": expected the folder that was locked"),
                    HasSubstr("moved to " + (folder / "moved").string())));
  // Now another folder, with its own lock, has the name.
  std::filesystem::create_directory(folder / "run");
  spill(folder / "run" / "lock", "another's");
  EXPECT_THAT(error_of([&] { lock->check(); }), HasSubstr("moved to"));
  lock.reset();
  EXPECT_THAT(listing(folder / "moved"), IsEmpty());
  EXPECT_EQ(slurp(folder / "run" / "lock"), "another's");
  lock.emplace(folder / "moved");
  std::filesystem::remove_all(folder / "moved");
  EXPECT_THAT(error_of([&] { lock->check(); }), HasSubstr("it was removed"));
}

TEST(MadeFolder, GoesAgainIfItIsEmpty) {
  const TemporaryFolder folder;
  { const MadeFolder made(folder / "a/b"); }
  EXPECT_FALSE(std::filesystem::exists(folder / "a/b"));
  std::filesystem::create_directory(folder / "there");
  { const MadeFolder made(folder / "there"); }
  EXPECT_TRUE(std::filesystem::exists(folder / "there"));
  {
    const MadeFolder made(folder / "used");
    spill(folder / "used/file", "x");
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "used/file"));
  EXPECT_THAT(error_of([&] { MadeFolder made(folder / "used/file/none"); }),
              HasSubstr("used/file/none: the folder cannot be created: Not a directory"));
}

TEST(FolderLock, WantsAFolder) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { FolderLock lock(folder / "none"); }),
              HasSubstr("none: cannot be opened: No such file"));
  spill(folder / "file", "1");
  EXPECT_THAT(error_of([&] { FolderLock lock(folder / "file"); }),
              HasSubstr("file: cannot be opened: Not a directory"));
}

}  // namespace
}  // namespace heed
