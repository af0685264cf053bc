// What must be on disk before the names appear. The test replaces the system's fsync and rename, and records
// the order of the calls.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>

#include <string>
#include <vector>

#include "heed/files/file.h"
#include "reference/temporary_folder.h"

namespace {

std::vector<std::string> calls;

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" int fsync(int descriptor) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), error);
  calls.push_back("sync " + path.filename().string());
  return next<int (*)(int)>("fsync")(descriptor);
}

extern "C" int rename(const char* from, const char* to) noexcept {
  calls.push_back("name " + std::filesystem::path(to).filename().string());
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

TEST(AtomicDirectory, MovesFilesOnceTheyAreOnDisk) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "model");
  spill(folder / "model" / "vocab", "old");
  AtomicDirectory staging(folder / "model" / "final");
  spill(staging.path() / "vocab", "new");
  spill(staging.path() / "weights", "1");
  spill(staging.path() / "zzz", "2");
  calls.clear();
  staging.move_files(folder / "model", "weights");
  ASSERT_EQ(calls.size(), 9u);
  EXPECT_THAT(std::vector(calls.begin(), calls.begin() + 4),
              IsSupersetOf({"sync vocab", "sync weights", "sync zzz"}));
  EXPECT_THAT(std::vector(calls.begin() + 4, calls.end()),
              ElementsAre("name vocab", "name zzz", "sync model", "name weights", "sync model"));
  EXPECT_EQ(slurp(folder / "model" / "vocab"), "new");
}

}  // namespace
}  // namespace heed
