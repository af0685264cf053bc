#include "data/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

TEST(InputFiles, OfAFolderComeInTheOrderOfTheirNamesWithoutHiddenOnes) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { data::input_files(folder.path()); }),
            folder.path().string() + ": expected a folder with text files, got none in it");
  std::filesystem::create_directories(folder / "a");
  std::filesystem::create_directories(folder / ".git");
  for (const char* name : {"b.txt", "a/2", "a/10", ".DS_Store", ".git/config", "a/.hidden"})
    spill(folder / name, "x");
  EXPECT_THAT(data::input_files(folder.path()),
              testing::ElementsAre(folder / "a/10", folder / "a/2", folder / "b.txt"));
  EXPECT_THAT(data::input_files(folder / "b.txt"), testing::ElementsAre(folder / "b.txt"));
  EXPECT_THAT(data::input_files(folder / "none"),
              testing::ElementsAre(folder / "none"));  // its reader says so
}

}  // namespace
}  // namespace heed
