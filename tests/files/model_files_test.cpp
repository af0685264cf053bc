#include "heed/files/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/gguf_file.h"
#include "reference/error.h"
#include "reference/gguf_writer.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

int calls = 0;
std::map<std::string, std::string> documents_of(const GgufFile& file) {
  ++calls;
  return {{"config.json", file.string("general.name").value()}, {"1_Pooling/config.json", "[]"}};
}
const ModelFiles::Maker kMaker{{"config.json", "generation_config.json", "1_Pooling/config.json"},
                               documents_of};

void spill_gguf(const fs::path& path, const std::string& name) {
  GgufWriter w;
  spill(path, w.string("general.name", name).bytes());
}

TEST(ModelFiles, OfADirectory) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "model/inner");
  spill(folder / "model/config.json", "{}");
  spill(folder / "model/inner/a.json", "[1]");
  const ModelFiles files(folder / "model");
  EXPECT_FALSE(files.is_gguf());
  EXPECT_TRUE(files.has("config.json"));
  EXPECT_FALSE(files.has("other.json"));
  EXPECT_EQ(files.text("config.json", 10), "{}");
  EXPECT_EQ(files.folder("inner").text("a.json", 10), "[1]");
  EXPECT_EQ(files.folder("inner").where("a.json"), (folder / "model/inner/a.json").string());
  EXPECT_ERROR(files.text("other.json", 10), "model/other.json: not found (check the path)");
  EXPECT_ERROR(files.text("config.json", 1), "model/config.json: expected a file of at most 1 bytes");
  EXPECT_ERROR(files.gguf(), "model: expected a GGUF file, got another");
}

TEST(ModelFiles, ARelativePathStaysTheSameModel) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "model");
  fs::create_directories(folder / "elsewhere/model");
  spill(folder / "model/config.json", "first");
  spill(folder / "elsewhere/model/config.json", "other");
  spill_gguf(folder / "x.gguf", "llama");
  const CurrentFolder here(folder.path());
  const ModelFiles files("model"), gguf("x.gguf", {kMaker});
  const CurrentFolder there(folder / "elsewhere");
  EXPECT_EQ(files.text("config.json", 10), "first");
  EXPECT_EQ(files.where("config.json"), "model/config.json");
  EXPECT_ERROR(files.text("other.json", 10), HasSubstr("model/other.json: not found"));
  EXPECT_EQ(error_of([&] { files.text("other.json", 10); }).find(folder.path().string()), std::string::npos);
  EXPECT_EQ(gguf.text("config.json", 10), "llama");
  EXPECT_EQ(gguf.gguf()->path(), "x.gguf");
}

TEST(ModelFiles, OfAGgufFileAreMadeOnceWhenTheyAreAskedFor) {
  const TemporaryFolder folder;
  spill_gguf(folder / "x.gguf", "llama");
  calls = 0;
  const ModelFiles files(folder / "x.gguf", {kMaker});
  EXPECT_TRUE(files.is_gguf());
  EXPECT_FALSE(files.has("tokenizer.json"));
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(files.has("config.json"));
  EXPECT_FALSE(files.has("generation_config.json"));
  EXPECT_EQ(files.text("./1_Pooling/config.json", 10), "[]");
  const ModelFiles copy = files;
  EXPECT_EQ(copy.folder("1_Pooling").text("config.json", 10), "[]");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(copy.gguf(), files.gguf());
  EXPECT_ERROR(files.text("generation_config.json", 10), "x.gguf/generation_config.json: not found");
}

TEST(ModelFiles, AFileThatIsReplaced) {
  const TemporaryFolder folder;
  const fs::path path = folder / "x.gguf", next = folder / "next";
  spill_gguf(path, "first");
  const ModelFiles kept(path, {kMaker});
  kept.gguf();
  spill_gguf(next, "second");
  fs::rename(next, path);
  EXPECT_EQ(kept.text("config.json", 10), "first");
  EXPECT_EQ(ModelFiles(path, {kMaker}).text("config.json", 10), "second");
}

}  // namespace
}  // namespace heed
