// Finding models in the Hugging Face cache: what refs name, and what is incomplete.
#include "heed/io/hub_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using testing::HasSubstr;

const std::string kOld(40, 'a'), kNew(40, 'b');

struct HubCacheTest : testing::Test {
  TemporaryFolder folder;
  std::filesystem::path repository = folder / "models--owner--name";

  void put(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((repository / file).parent_path());
    spill(repository / file, text);
  }
  std::filesystem::path find(const std::string& revision = "") const {
    return find_snapshot(folder.path(), "owner/name", revision);
  }
  std::string error(const std::string& revision = "") const {
    return error_of([&] { find(revision); });
  }
};

TEST_F(HubCacheTest, TakesTheCommitThatTheRefNames) {
  EXPECT_EQ(find(), "");
  put("snapshots/" + kOld + "/config.json", "{}");
  put("snapshots/" + kNew + "/config.json", "{}");
  put("refs/main", kOld);
  put("refs/v2", kNew + "\n");
  put("refs/main.tmp-1-0", "being written");
  EXPECT_EQ(find(), repository / "snapshots" / kOld);
  EXPECT_EQ(find("main"), repository / "snapshots" / kOld);
  EXPECT_EQ(find("v2"), repository / "snapshots" / kNew);
  EXPECT_EQ(find(kNew), repository / "snapshots" / kNew);
  EXPECT_THAT(error("v3"),
              AllOf(HasSubstr("revision v3: not found"), HasSubstr("which has main, v2 (run: heed pull "
                                                                   "owner/name --revision v3)")));
  EXPECT_THAT(error(std::string(40, 'c')), HasSubstr("not found"));
  EXPECT_THAT(error("../refs/main"), HasSubstr("not found"));
}

TEST_F(HubCacheTest, WithoutMainTheOthersAreNamed) {
  put("snapshots/" + kNew + "/config.json", "{}");
  put("refs/v2", kNew);
  EXPECT_THAT(error(), AllOf(HasSubstr("revision main: not found"), HasSubstr("which has v2"),
                             HasSubstr("or write owner/name@REVISION")));
}

TEST_F(HubCacheTest, IncompleteSnapshotsNameTheCommandThatMendsThem) {
  put("refs/main", kOld);
  put("snapshots/" + kOld + "/README.md", "");
  EXPECT_THAT(error(), AllOf(HasSubstr("config.json is missing"), HasSubstr("(run: heed pull owner/name)")));
  put("snapshots/" + kOld + "/config.json", "{}");
  put("snapshots/" + kOld + "/model.safetensors.index.json",
      R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})");
  put("snapshots/" + kOld + "/1.safetensors", "");
  EXPECT_THAT(error(), HasSubstr("2.safetensors is missing"));
  std::filesystem::create_symlink("../../blobs/gone", repository / "snapshots" / kOld / "2.safetensors");
  EXPECT_THAT(error(), HasSubstr("2.safetensors is missing"));
  put("blobs/gone", "");
  EXPECT_EQ(find(), repository / "snapshots" / kOld);
  put("refs/main", kNew);
  EXPECT_THAT(error(), HasSubstr("config.json is missing"));
  put("refs/main", "../../outside");
  EXPECT_THAT(error(), HasSubstr("refs/main: expected a commit hash"));
}

TEST_F(HubCacheTest, AFolderOfTokenizerFilesIsComplete) {
  put("refs/main", kOld);
  put("snapshots/" + kOld + "/tokenizer.json", "{}");
  EXPECT_EQ(find(), repository / "snapshots" / kOld);
}

TEST_F(HubCacheTest, NamesOfRepositories) {
  for (const char* good : {"gpt2", "owner/name", "Helsinki-NLP/opus-mt-en-fr", "a/b.c_d-1"})
    EXPECT_TRUE(is_repository_name(good)) << good;
  for (const char* bad :
       {"", "/", "a/", "/a", "a/b/c", "..", "a/..", "a b", "a--b", "-a", "a.git", "a\n", "a\\b", "é"})
    EXPECT_FALSE(is_repository_name(bad)) << bad;
  EXPECT_FALSE(is_repository_name(std::string(97, 'a')));
}

TEST(HubHome, ComesFromThePasswordDatabaseWithoutHome) {
  const std::vector<std::string> names{"HOME", "HF_HOME", "XDG_CACHE_HOME"};
  std::map<std::string, std::string> before;
  for (const std::string& name : names) {
    if (const char* value = std::getenv(name.c_str())) before[name] = value;
    ::unsetenv(name.c_str());
  }
  const passwd* entry = ::getpwuid(::getuid());
  ASSERT_NE(entry, nullptr);
  const std::filesystem::path home = entry->pw_dir;
  EXPECT_EQ(hub_home(), home / ".cache/huggingface");
  ::setenv("HF_HOME", "~/models", 1);
  EXPECT_EQ(hub_home(), home / "models");
  ::setenv("HOME", "/elsewhere", 1);
  EXPECT_EQ(hub_home(), "/elsewhere/models");
  for (const std::string& name : names) ::unsetenv(name.c_str());
  for (const auto& [name, value] : before) ::setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace
}  // namespace heed
