#include "files/file_documents.h"

#include <gtest/gtest.h>

#include "files/input_file.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

TEST(FileDocuments, AreReadAsFilesOfADirectory) {
  const TemporaryFolder folder;
  spill(folder / "model.gguf", "x");
  const std::filesystem::path file = folder / "model.gguf";
  EXPECT_FALSE(has_entry(file / "config.json"));
  keep_documents(file, {{"config.json", "{}"}, {"1_Pooling/config.json", "[]"}});
  EXPECT_TRUE(has_entry(file / "config.json"));
  EXPECT_EQ(read_regular_file(file / "config.json", 10), "{}");
  EXPECT_EQ(read_regular_file(file / "./1_Pooling/config.json", 10), "[]");
  EXPECT_FALSE(has_entry(file / "other.json"));
  EXPECT_ERROR(read_regular_file(file / "other.json", 10), "other.json: not found");
  keep_documents(file, {{"config.json", "{\"a\": 1}"}});
  EXPECT_EQ(read_regular_file(file / "config.json", 10), "{\"a\": 1}");
  EXPECT_TRUE(has_entry(file / "1_Pooling/config.json"));
}

}  // namespace
}  // namespace heed
