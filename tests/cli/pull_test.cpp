// heed pull with a hub on 127.0.0.1, and which models --model then finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "command.h"
#include "hub/fake_hub.h"

namespace heed::cli_test {
namespace {

namespace fs = std::filesystem;
using hub_test::FakeHub;
using hub_test::kCommit;
using testing::HasSubstr;

struct PullCommand : testing::Test {
  Folder folder;
  FakeHub hub;

  void SetUp() override {
    set("HF_ENDPOINT", hub.url());
    set("HF_HOME", folder / "hf");
    set("NO_PROXY", "127.0.0.1");
    for (const char* name :
         {"HF_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "HEED_MODELS"})
      ::unsetenv(name);
    // A loadable model. Its ETags are not hashes, so nothing checks them.
    for (const char* name : {"config.json", "model.safetensors"})
      hub.files[name] = {slurp(marian() + "/" + name), std::string("etag-of-") + name};
  }
  void TearDown() override {
    for (const char* name : {"HF_ENDPOINT", "HF_HOME", "HF_HUB_OFFLINE"}) ::unsetenv(name);
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  std::string repository() const { return folder / "hf/hub/models--owner--model"; }
  std::string snapshot() const { return repository() + "/snapshots/" + kCommit; }
};

TEST_F(PullCommand, PrintsThePathAndTheModelIsFoundByName) {
  EXPECT_EQ(output_of({"pull", "owner/model"}), snapshot() + "\n");
  for (const char* name :
       {"owner/model", "owner/model@main", "owner/model@0123456789abcdef0123456789abcdef01234567"}) {
    EXPECT_THAT(output_of({"models", name, "--json"}), HasSubstr("marian")) << name;
  }
  const Result other = run({"models", "owner/model@v2"});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("revision v2: not found in"));
  EXPECT_THAT(other.err, HasSubstr("run: heed pull owner/model --revision v2"));
}

TEST_F(PullCommand, GivesOneObjectPerModel) {
  const Result result = run({"pull", "--json", "--quiet", "owner/model", "owner/model@refs/pr/1"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  const std::vector<Json> objects = json_lines(result.out);
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[0]["model"], "owner/model");
  EXPECT_EQ(objects[0]["revision"], "main");
  EXPECT_EQ(objects[1]["revision"], "refs/pr/1");
  EXPECT_EQ(objects[1]["commit"], kCommit);
  EXPECT_EQ(objects[1]["path"], snapshot());
  EXPECT_EQ(objects[1]["files"], Json({"config.json", "model.safetensors", "tokenizer.json"}));
  EXPECT_EQ(objects[1]["bytes"],
            fs::file_size(marian() + "/config.json") + fs::file_size(marian() + "/model.safetensors") + 3);
  EXPECT_EQ(objects[0]["received"], objects[0]["bytes"]);
  EXPECT_EQ(objects[1]["received"], 0);
}

TEST_F(PullCommand, TellsWrongUseFromFailure) {
  for (const Words& words : std::vector<Words>{{"pull"},
                                               {"pull", "a/b/c"},
                                               {"pull", "../x"},
                                               {"pull", "owner/model", "no such/model"},
                                               {"pull", "owner/model", "--revision", "a..b"},
                                               {"pull", "owner/model@"},
                                               {"pull", "owner/model@a", "--revision", "b"}}) {
    const Result result = run(words);
    EXPECT_EQ(result.status, 2) << words.back() << result.err;
    EXPECT_EQ(lines(result.err).size(), 1u) << result.err;
  }
  EXPECT_THAT(run({"pull", "https://example.org/owner/model/tree/main"}).err,
              HasSubstr("(give owner/model: heed pull owner/model)"));
  EXPECT_TRUE(hub.hub.calls().empty());
  expect_error(1, {"pull", "owner/none"}, "heed: error: owner/none: not found at");
  set("HF_HUB_OFFLINE", "1");
  EXPECT_THAT(run({"pull", "owner/model"}).err, HasSubstr("HF_HUB_OFFLINE forbids downloading"));
}

TEST_F(PullCommand, CtrlCLeavesWhatCanBeResumed) {
  hub.files["model.safetensors"] = {hub_test::weights(), hub_test::kWeightsHash, true};
  hub.on_storage = [this](const hub_test::Call& call) -> std::optional<hub_test::Answer> {
    hub_test::Answer answer = hub.answer_from_storage(call);
    if (call.header("range").empty()) {
      answer.cut = 100000;
    } else {
      answer.wait_ms = 60000;
    }
    return answer;
  };
  set("HF_HUB_DOWNLOAD_TIMEOUT", "60");
  const pid_t process = start({"pull", "owner/model"});
  constexpr int kPatience = 3000;  // a minute
  for (int i = 0; i < kPatience && hub.storage.calls().size() < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(process, SIGINT);
  EXPECT_EQ(wait_for(process), 130);
  ::unsetenv("HF_HUB_DOWNLOAD_TIMEOUT");
  EXPECT_EQ(fs::file_size(repository() + "/blobs/" + hub_test::kWeightsHash + ".incomplete"), 100000u);
  // Incomplete: a model that was never pulled completely is not found.
  const Result info = run({"models", "owner/model"});
  EXPECT_EQ(info.status, 1);
  hub.on_storage = nullptr;
  EXPECT_EQ(run({"pull", "owner/model"}).status, 0);
  EXPECT_EQ(slurp(snapshot() + "/model.safetensors"), hub_test::weights());
}

TEST_F(PullCommand, AModelThatIsNowhereNamesTheCommandThatGetsIt) {
  for (const char* name : {"owner/model", "bert-base-uncased"}) {
    expect_error(1, {"models", name},
                 std::string("model ") + name + ": not found (run: heed pull " + name + ";");
  }
  const std::string models = folder / "models";
  fs::create_directories(models + "/my-model");
  spill(models + "/my-model/config.json", "{}");
  set("HEED_MODELS", models);
  EXPECT_THAT(run({"models", "my-modle"}).err,
              HasSubstr("model my-modle: not found (did you mean my-model?)"));
  EXPECT_THAT(run({"models", "/no/such/folder"}).err,
              HasSubstr("model /no/such/folder: not found (check the path)"));
}

TEST_F(PullCommand, FilesOfOtherToolsAreNamed) {
  spill(folder / "model.gguf", "GGUF\x03");
  spill(folder / "renamed", "GGUF\x03");
  fs::create_directories(folder / "onnx");
  spill(folder / "onnx/model.onnx", "x");
  for (const char* name : {"model.gguf", "renamed"}) {
    const Result result = run({"models", folder / name});
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr(std::string(name) + ": the header ends beyond the file of 5 bytes"));
  }
  spill(folder / "junk.bin", "nothing that is known");
  EXPECT_THAT(run({"models", folder / "junk.bin"}).err, HasSubstr("got a file\n"));
  spill(folder / "pickle.bin", "\x80\x02\x8a");
  EXPECT_THAT(run({"models", folder / "pickle.bin"}).err, HasSubstr("got a pickled PyTorch checkpoint"));
  EXPECT_THAT(run({"models", folder / "onnx"}).err, HasSubstr("got an ONNX file (model.onnx)"));
  spill(folder / "onnx/config.json", slurp(marian() + "/config.json"));
  EXPECT_THAT(run({"models", folder / "onnx"}).err, HasSubstr("model.onnx: expected safetensors, got ONNX"));
  EXPECT_THAT(run({"models", marian() + "/model.safetensors"}).err,
              HasSubstr("give the directory that holds it"));
}

// Found by its name from the build directory, but not by a copy elsewhere, as installed by `make install`.
TEST_F(PullCommand, AnInstalledCommandLeavesTheSourceTreeAlone) {
  ASSERT_TRUE(fs::exists(HEED_SOURCE "/models/en-fr/config.json"));
  EXPECT_EQ(run({"models", "en-fr"}).status, 0);
  fs::create_directories(folder / "prefix/bin");
  const std::string installed = folder / "prefix/bin/heed";
  fs::copy_file(HEED_COMMAND, installed);
  const std::string command =
      "cd / && '" + installed + "' models en-fr >/dev/null 2>'" + (folder / "err") + "'";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
  EXPECT_THAT(slurp(folder / "err"), AllOf(HasSubstr("model en-fr: not found"),
                                           HasSubstr(folder / "prefix/share"), Not(HasSubstr(HEED_SOURCE))));
}

}  // namespace
}  // namespace heed::cli_test
