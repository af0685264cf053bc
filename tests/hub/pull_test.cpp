// Pulls that succeed: the layout of the cache, the requests to each server, resuming.
#include <algorithm>
#include <thread>

#include "hub/cache.h"
#include "hub/pull_fixture.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed::hub_test {
namespace {

using testing::ElementsAre;

TEST_F(PullTest, LeavesTheCacheAsPythonsLibraryDoes) {
  server.files["modules.json"] = server.files["README.md"];
  server.files["1_Pooling/config.json"] = server.files["config.json"];
  const hub::PullResult result = pull();
  EXPECT_EQ(result.commit, kCommit);
  EXPECT_EQ(result.path, snapshot());
  EXPECT_THAT(result.files, ElementsAre("1_Pooling/config.json", "config.json", "model.safetensors",
                                        "modules.json", "tokenizer.json"));
  EXPECT_EQ(result.bytes, 300000u + 23 + 23 + 3 + 3);
  const std::string root = "models--owner--model/", names = root + "snapshots/" + kCommit + "/",
                    locks = ".locks/" + root;
  const std::string config = "dc1fb7b6703fe03317c1a080b523bf475f3d4818",
                    list = "fe51488c7066f6687ef680d6bfaa4f7768ef205c",
                    object = "0967ef424bce6791893e9a57bb952f80fd536e93", large = kWeightsHash;
  // The tree that huggingface_hub's snapshot_download creates for the same repository.
  EXPECT_THAT(
      tree(),
      testing::UnorderedElementsAre(
          locks + config + ".lock", locks + list + ".lock", locks + object + ".lock", locks + large + ".lock",
          root + "blobs/" + config, root + "blobs/" + list, root + "blobs/" + object, root + "blobs/" + large,
          root + "refs/main", names + "1_Pooling/config.json -> ../../../blobs/" + config,
          names + "config.json -> ../../blobs/" + config, names + "modules.json -> ../../blobs/" + list,
          names + "tokenizer.json -> ../../blobs/" + object,
          names + "model.safetensors -> ../../blobs/" + large));
  EXPECT_EQ(slurp(repository() / "refs/main"), kCommit);
  EXPECT_EQ(slurp(snapshot() / "model.safetensors"), weights());
  EXPECT_EQ(find_snapshot(folder.path(), "owner/model", ""), snapshot());
}

TEST_F(PullTest, AsksForNothingThatIsThere) {
  pull();
  const std::size_t asked = server.hub.calls().size();
  const hub::PullResult again = pull();
  EXPECT_EQ(again.received, 0u);
  EXPECT_EQ(again.files.size(), 3u);
  EXPECT_EQ(server.hub.calls().size(), asked + 1);  // for the commit of main
  // A dangling or missing name is recreated from the blob, or downloaded again if there is none.
  fs::remove(snapshot() / "model.safetensors");
  EXPECT_EQ(pull().received, 0u);
  fs::remove(repository() / "blobs" / kWeightsHash);
  EXPECT_EQ(pull().received, 300000u);
  EXPECT_EQ(slurp(snapshot() / "model.safetensors"), weights());
}

TEST_F(PullTest, TheTokenGoesToTheHubOnly) {
  settings.token = "hf_secret";
  pull();
  for (const Call& call : server.hub.calls())
    EXPECT_EQ(call.header("authorization"), "Bearer hf_secret") << call.target;
  ASSERT_GT(gets("model.safetensors"), 0);
  for (const Call& call : server.storage.calls()) {
    for (const auto& [name, value] : call.headers)
      EXPECT_EQ(value.find("hf_secret"), std::string::npos) << name;
  }
}

TEST_F(PullTest, TheTokenStaysHereWhenTheHubSendsAQuestionElsewhere) {
  settings.token = "hf_secret";
  const auto elsewhere = [this](const Call& call) -> std::optional<Answer> {
    return Answer{307, {{"Location", server.storage.url() + call.target}}, ""};
  };
  server.on_hub = elsewhere;
  server.on_storage = [this](const Call& call) -> std::optional<Answer> { return server.answer(call); };
  (void)error();  // whether this succeeds does not matter here
  ASSERT_FALSE(server.storage.calls().empty());
  for (const Call& call : server.storage.calls()) EXPECT_EQ(call.header("authorization"), "") << call.target;
}

TEST_F(PullTest, FollowsARenamedRepository) {
  options.model = "model";
  settings.token = "hf_secret";
  server.on_hub = [](const Call& call) -> std::optional<Answer> {
    const std::size_t at = call.target.find("/model/");
    if (call.target.find("owner/model") != std::string::npos || at == std::string::npos) return std::nullopt;
    return Answer{307, {{"Location", call.target.substr(0, at) + "/owner" + call.target.substr(at)}}, ""};
  };
  EXPECT_EQ(pull().path, folder / "models--model/snapshots" / kCommit);
  for (const Call& call : server.hub.calls()) EXPECT_EQ(call.header("authorization"), "Bearer hf_secret");
}

TEST_F(PullTest, ResumesWhatWasBegun) {
  fs::create_directories(partial().parent_path());
  spill(partial(), weights().substr(0, 100000));
  EXPECT_EQ(pull().received, 200000u + 23 + 3);
  EXPECT_EQ(slurp(snapshot() / "model.safetensors"), weights());
  EXPECT_FALSE(fs::exists(partial()));
  ASSERT_EQ(gets("model.safetensors"), 1);
  EXPECT_EQ(server.storage.calls()[0].header("range"), "bytes=100000-");
}

TEST_F(PullTest, ResumesWhereTheConnectionWasCut) {
  int answers = 0;
  server.on_storage = [&](const Call& call) -> std::optional<Answer> {
    Answer answer = server.answer_from_storage(call);
    if (++answers < 3) answer.cut = 100000;
    return answer;
  };
  EXPECT_EQ(pull().received, 300000u + 23 + 3);
  EXPECT_EQ(slurp(snapshot() / "model.safetensors"), weights());
  EXPECT_EQ(gets("model.safetensors"), 3);
}

TEST_F(PullTest, BeginsAnewWhereTheServerIgnoresRanges) {
  server.ignore_ranges = true;
  fs::create_directories(partial().parent_path());
  spill(partial(), weights().substr(0, 100000));
  EXPECT_EQ(pull().received, 300000u + 23 + 3);
  EXPECT_EQ(slurp(snapshot() / "model.safetensors"), weights());
}

TEST_F(PullTest, ReplacesAPartThatIsDamagedOrTooLong) {
  for (const std::string& part :
       {std::string(100000, 'x'), std::string(400000, 'x'), std::string(300000, 'x')}) {
    fs::remove_all(repository());
    fs::create_directories(partial().parent_path());
    spill(partial(), part);
    pull();
    EXPECT_EQ(slurp(snapshot() / "model.safetensors"), weights()) << part.size();
  }
}

TEST_F(PullTest, TriesAgainWhatFailedForTheMoment) {
  std::atomic<int> failures{0};
  server.on_hub = [&](const Call& call) -> std::optional<Answer> {
    const std::vector<Call> calls = server.hub.calls();
    const auto same = std::count_if(calls.begin(), calls.end(), [&](const Call& other) {
      return other.target == call.target && other.method == call.method;
    });
    if (same > 3) return std::nullopt;
    ++failures;
    if (same == 1) return Answer{503, {}, "busy"};
    if (same == 2) return Answer{429, {{"Retry-After", "0"}}, ""};
    return Answer{429, {{"RateLimit", "\"resolvers\";r=0;t=0"}}, ""};
  };
  pull();
  EXPECT_EQ(failures, 3 * (1 + 3 + 3));  // the repository, and each file's size and content
}

TEST_F(PullTest, KeepsEveryRevisionsCommit) {
  options.revision = "refs/pr/1";
  pull();
  EXPECT_EQ(slurp(repository() / "refs/refs/pr/1"), kCommit);
  EXPECT_FALSE(fs::exists(repository() / "refs/main"));
  options.revision = kCommit;
  pull();
  EXPECT_EQ(listing(repository() / "refs"), std::vector<std::string>{"refs"});
  EXPECT_EQ(find_snapshot(folder.path(), "owner/model", "refs/pr/1"), snapshot());
  EXPECT_ERROR(find_snapshot(folder.path(), "owner/model", ""),
               AllOf(HasSubstr("revision main: not found"), HasSubstr("refs/pr/1"),
                     HasSubstr("heed pull owner/model")));
}

TEST_F(PullTest, TakesTheShardsOfAnIndex) {
  server.files.erase("model.safetensors");
  server.files["model.safetensors.index.json"] = {
      "{\"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\", \"b\": "
      "\"model-00002-of-00002.safetensors\"}}\n",
      "504943cf8e393b77b82726be1b3d7427fc762c1b"};
  server.files["model-00001-of-00002.safetensors"] = {weights(), kWeightsHash, true};
  server.files["model-00002-of-00002.safetensors"] = server.files["model-00001-of-00002.safetensors"];
  EXPECT_EQ(pull().files.size(), 5u);
  EXPECT_EQ(slurp(snapshot() / "model-00002-of-00002.safetensors"), weights());
  EXPECT_EQ(gets("model-0000"), 1);  // files with the same content share one blob
}

TEST_F(PullTest, TwoAtOnceDownloadEachFileOnce) {
  server.on_storage = [this](const Call& call) -> std::optional<Answer> {
    Answer answer = server.answer_from_storage(call);
    answer.wait_ms = 200;
    return answer;
  };
  std::thread other([this] { pull(); });
  pull();
  other.join();
  EXPECT_EQ(slurp(snapshot() / "model.safetensors"), weights());
  EXPECT_EQ(gets("model.safetensors"), 1);
}

TEST_F(PullTest, WaitsForTheLockOfAnotherProcess) {
  const fs::path lock = folder / ".locks/models--owner--model" / (std::string(kWeightsHash) + ".lock");
  fs::create_directories(lock.parent_path());
  std::atomic<bool> waited{false};
  const hub::StopSignal never;
  auto held = std::make_unique<hub::FileLock>(lock, never, [] {});
  options.on_message = [&](const std::string& message) {
    EXPECT_THAT(message, HasSubstr("waiting for another download of model.safetensors"));
    waited = true;
    held.reset();
  };
  pull();
  EXPECT_TRUE(waited);
}

TEST_F(PullTest, CountsBytes) {
  hub::PullProgress last;
  options.on_progress = [&](const hub::PullProgress& progress) {
    EXPECT_LE(progress.done, progress.total);
    last = progress;
  };
  pull();
  EXPECT_EQ(last.done, 300000u + 23 + 3);
  EXPECT_EQ(last.total, last.done);
  EXPECT_EQ(last.files, 3u);
}

TEST_F(PullTest, OfflineTakesWhatIsThere) {
  settings.offline = true;
  EXPECT_THAT(error(), HasSubstr("HF_HUB_OFFLINE"));
  settings.offline = false;
  pull();
  const std::size_t asked = server.hub.calls().size();
  settings.offline = true;
  EXPECT_EQ(pull().path, snapshot());
  EXPECT_EQ(server.hub.calls().size(), asked);
}

}  // namespace
}  // namespace heed::hub_test
