#include "files/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(FolderLock, KeepsOthersOutAndNamesTheHolder) {
  const TemporaryFolder folder;
  {
    const FolderLock lock(folder.path());
    EXPECT_ERROR(FolderLock second(folder.path()),
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
  const auto is_written = [&] {
    return std::filesystem::exists(folder / "lock") && !slurp(folder / "lock").empty();
  };
  while (!is_written() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_ERROR(FolderLock second(folder.path()), "process " + std::to_string(child) + " on ");
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
  EXPECT_ERROR(lock->check(),
               AllOf(HasSubstr((folder / "run").string() + ": expected the folder that was locked"),
                     HasSubstr("moved to " + (folder / "moved").string())));
  // Now another folder, with its own lock, has the name.
  std::filesystem::create_directory(folder / "run");
  spill(folder / "run" / "lock", "another's");
  EXPECT_ERROR(lock->check(), "moved to");
  lock.reset();
  EXPECT_THAT(listing(folder / "moved"), IsEmpty());
  EXPECT_EQ(slurp(folder / "run" / "lock"), "another's");
  lock.emplace(folder / "moved");
  std::filesystem::remove_all(folder / "moved");
  EXPECT_ERROR(lock->check(), "it was removed");
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
  EXPECT_ERROR(MadeFolder made(folder / "used/file/none"),
               "used/file/none: the folder cannot be created: Not a directory");
}

TEST(NewModelFolder, BecomesAModelAtTheEnd) {
  const TemporaryFolder folder;
  const auto write = [&](NewModelFolder& model, const std::string& content) {
    std::filesystem::create_directory(model.path() / "pooling");
    for (const char* name : {"config.json", "model.safetensors", "pooling/config.json"})
      spill(model.path() / name, content);
  };
  // What was left where one was killed before its config.json was moved.
  std::filesystem::create_directories(folder / "out/pooling");
  for (const char* name : {"lock", "model.safetensors", "pooling/config.json"})
    spill(folder / "out" / name, "old");
  {
    NewModelFolder model(folder / "out");
    EXPECT_ERROR(NewModelFolder(folder / "out"), "in use by process");
    write(model, "new");
    EXPECT_FALSE(std::filesystem::exists(folder / "out/config.json"));
    model.commit();
  }
  EXPECT_THAT(listing(folder / "out"), ElementsAre("config.json", "model.safetensors", "pooling"));
  for (const char* name : {"config.json", "model.safetensors", "pooling/config.json"})
    EXPECT_EQ(slurp(folder / "out" / name), "new") << name;
  EXPECT_ERROR(NewModelFolder(folder / "out"), "expected a folder without a model, got one");
  EXPECT_THAT(listing(folder / "out"), ElementsAre("config.json", "model.safetensors", "pooling"));
  { NewModelFolder unused(folder / "none"); }
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

TEST(FolderLock, WantsAFolder) {
  const TemporaryFolder folder;
  EXPECT_ERROR(FolderLock lock(folder / "none"), "none: cannot be opened: No such file");
  spill(folder / "file", "1");
  EXPECT_ERROR(FolderLock lock(folder / "file"), "file: cannot be opened: Not a directory");
}

}  // namespace
}  // namespace heed
