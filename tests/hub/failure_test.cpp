// Pulls that fail: each gives one line with what to do, and leaves no incomplete file under its final name.
#include <sys/resource.h>

#include <csignal>
#include <mutex>
#include <thread>

#include "heed/error.h"
#include "hub/http.h"
#include "hub/pull_fixture.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed::hub_test {
namespace {

TEST_F(PullTest, NamesWhatTheHubRefuses) {
  const auto with = [this](Answer answer) {
    server.on_hub = [answer](const Call&) -> std::optional<Answer> { return answer; };
    return error();
  };
  const std::string page = server.url() + "/owner/model";
  EXPECT_THAT(with({401, {{"X-Error-Code", "GatedRepo"}}, ""}),
              AllOf(HasSubstr("owner/model: gated"), HasSubstr(page), HasSubstr("set HF_TOKEN")));
  EXPECT_THAT(with({401, {{"X-Error-Code", "RepoNotFound"}}, ""}),
              AllOf(HasSubstr("not found"), HasSubstr("HF_TOKEN")));
  EXPECT_THAT(with({404, {{"X-Error-Code", "RepoNotFound"}}, ""}), HasSubstr("not found"));
  EXPECT_THAT(with({404, {{"X-Error-Code", "RevisionNotFound"}}, ""}), HasSubstr("revision main: not found"));
  EXPECT_THAT(with({404, {}, ""}), HasSubstr("owner/model: not found at " + server.url()));
  EXPECT_THAT(with({403, {{"X-Error-Message", "blocked\x1b[2J"}}, ""}),
              HasSubstr("access denied: blocked?[2J"));
  EXPECT_THAT(with({418, {}, ""}), HasSubstr("expected the status 200, got 418"));
  settings.token = "hf_x";
  EXPECT_THAT(with({403, {{"X-Error-Code", "GatedRepo"}}, ""}), HasSubstr("with the account of your token"));
  EXPECT_THAT(with({401, {{"X-Error-Message", "Invalid credentials in Authorization header"}}, ""}),
              HasSubstr("refused the token"));
  EXPECT_FALSE(fs::exists(repository()));
}

TEST_F(PullTest, GivesUpAfterAWhile) {
  server.on_hub = [](const Call&) -> std::optional<Answer> { return Answer{502, {}, "bad gateway"}; };
  EXPECT_THAT(error(), HasSubstr("the server failed with status 502"));
  EXPECT_EQ(server.hub.calls().size(), 6u);
  server.on_hub = [](const Call&) -> std::optional<Answer> {
    return Answer{429, {{"Retry-After", "3600"}}, ""};
  };
  EXPECT_THAT(error(), HasSubstr("too many requests"));
  EXPECT_EQ(server.hub.calls().size(), 7u);
}

TEST_F(PullTest, NamesAFileThatIsMissing) {
  server.on_hub = [](const Call& call) -> std::optional<Answer> {
    if (call.target.ends_with("tokenizer.json")) return Answer{404, {{"X-Error-Code", "EntryNotFound"}}, ""};
    return std::nullopt;
  };
  EXPECT_THAT(error(), HasSubstr("tokenizer.json: not found at revision main"));
  EXPECT_FALSE(fs::exists(repository() / "refs/main"));
}

TEST_F(PullTest, RefusesAWrongHash) {
  for (const char* name : {"model.safetensors", "config.json"}) {
    const std::string right = server.files[name].content;
    fs::remove_all(repository());
    server.files[name].content[5] ^= 1;
    EXPECT_THAT(error(), AllOf(HasSubstr(std::string(name) + ": expected the hash"), HasSubstr("try again")));
    EXPECT_FALSE(fs::exists(snapshot() / name));
    // If config.json is wrong, the download of the weights may have been interrupted, which is no reason to
    // delete their part.
    if (std::string(name) == "model.safetensors") {
      EXPECT_FALSE(fs::exists(partial()));
    }
    EXPECT_FALSE(fs::exists(repository() / "refs/main"));
    server.files[name].content = right;
  }
  pull();
  EXPECT_EQ(slurp(snapshot() / "model.safetensors"), weights());
}

TEST_F(PullTest, RefusesMoreThanWasAnnounced) {
  server.on_storage = [this](const Call& call) -> std::optional<Answer> {
    Answer answer = server.answer_from_storage(call);
    answer.body += "more";
    return answer;
  };
  EXPECT_THAT(error(), HasSubstr("model.safetensors: expected 300000 bytes, got more"));
  EXPECT_LE(fs::file_size(partial()), 300000u);
}

TEST_F(PullTest, AnAnswerWithoutEndIsCut) {
  server.on_hub = [](const Call&) -> std::optional<Answer> {
    return Answer{200, {}, std::string(20 << 20, ' ')};
  };
  EXPECT_THAT(error(), HasSubstr("expected an answer of at most 16777216 bytes"));
}

TEST_F(PullTest, HostileNamesStayOutside) {
  for (const char* name : {"../../../outside", "/tmp/outside", "a/../../outside"}) {
    server.files[name] = server.files["config.json"];
    options.patterns.include = {"*"};
    EXPECT_THAT(error(), HasSubstr("expected the path of a file inside the repository"));
    server.files.erase(name);
  }
  for (const char* etag : {"../../../outside", "/tmp/outside", "..", ".", "a b"}) {
    server.files["config.json"].etag = etag;
    EXPECT_THAT(error(), HasSubstr("expected an ETag that can name a file")) << etag;
  }
  EXPECT_FALSE(fs::exists(folder.path().parent_path() / "outside"));
}

TEST_F(PullTest, ANameCannotLeadThroughALink) {
  // "a" is a link to a blob: a file "a/b" would be written where the link points.
  server.files["a"] = server.files["config.json"];
  server.files["a/b"] = server.files["tokenizer.json"];
  options.patterns.include = {"a*"};
  EXPECT_NE(error(), "");
  const fs::path elsewhere = folder / "elsewhere";
  fs::create_directories(elsewhere);
  fs::remove_all(snapshot());
  fs::create_directories(snapshot());
  fs::create_directory_symlink(elsewhere, snapshot() / "a");
  server.files.erase("a");
  EXPECT_THAT(error(), HasSubstr("expected a folder, got a symbolic link"));
  EXPECT_TRUE(fs::is_empty(elsewhere));
}

TEST_F(PullTest, ConnectionsThatFail) {
  const std::string closed = Server([](const Call&) { return Answer(); }).url();
  settings.endpoint = closed;
  EXPECT_THAT(error(), AllOf(HasSubstr(closed + ": not reached"), HasSubstr("check the network")));
  settings.endpoint = "http://heed.invalid";
  EXPECT_THAT(error(), HasSubstr("http://heed.invalid: not reached: the name could not be resolved"));
}

TEST_F(PullTest, ASilentServerIsGivenUp) {
  settings.connect_seconds = 1;
  server.on_hub = [](const Call&) -> std::optional<Answer> {
    Answer answer;
    answer.wait_ms = 60000;
    return answer;
  };
  EXPECT_THAT(error(), AllOf(HasSubstr("no answer within 1 s"), HasSubstr("HF_HUB_ETAG_TIMEOUT")));
}

TEST_F(PullTest, AProxyThatRefuses) {
  Server proxy([](const Call&) { return Answer{407, {{"Proxy-Authenticate", "Basic realm=\"x\""}}, ""}; });
  ::setenv("HTTPS_PROXY", proxy.url().c_str(), 1);
  settings.endpoint = "https://heed.invalid";
  EXPECT_THAT(error(), AllOf(HasSubstr("the proxy failed"), HasSubstr("check HTTPS_PROXY")));
  ::unsetenv("HTTPS_PROXY");
  ASSERT_FALSE(proxy.calls().empty());
  EXPECT_EQ(proxy.calls()[0].method, "CONNECT");
}

TEST_F(PullTest, AnEncryptedHubNeverLeadsToAPlainOne) {
  hub::Settings encrypted;  // https
  const hub::StopSignal never;
  hub::Http http(encrypted, never);
  for (const std::string& url : {server.url() + "/", std::string("file:///etc/passwd")}) {
    hub::Request request;
    request.url = url;
    EXPECT_ERROR(http.send(request), "expected an https URL");
  }
  EXPECT_TRUE(server.hub.calls().empty());
}

// A file size limit simulates a full disk: the same write fails, here with EFBIG.
TEST_F(PullTest, AFullDiskLeavesWhatCanBeResumed) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = error();
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(message, HasSubstr("cannot write 300.0 kB"));
  EXPECT_EQ(fs::file_size(partial()), 100000u);
  EXPECT_FALSE(fs::exists(repository() / "refs/main"));
  pull();
  EXPECT_EQ(slurp(snapshot() / "model.safetensors"), weights());
  EXPECT_EQ(server.storage.calls().back().header("range"), "bytes=100000-");
}

TEST_F(PullTest, ADiskWithoutRoomShowsBeforeTheFirstByte) {
  std::string size = "9000000000000000000";
  server.on_hub = [&](const Call& call) -> std::optional<Answer> {
    if (call.method != "HEAD" || !call.target.ends_with("model.safetensors")) return std::nullopt;
    return Answer{302,
                  {{"X-Repo-Commit", kCommit},
                   {"X-Linked-Etag", kWeightsHash},
                   {"X-Linked-Size", size},
                   {"Location", "http://127.0.0.1:1/"}},
                  ""};
  };
  EXPECT_THAT(error(), AllOf(HasSubstr("expected 9000000.0 TB of free space"), HasSubstr("HF_HUB_CACHE")));
  EXPECT_EQ(FakeHub::count(server.hub, "GET", "resolve"), 0);
  size = "18446744073709551615";  // with the other files more than 64 bits hold
  EXPECT_THAT(error(), HasSubstr("expected 18446744.1 TB of free space"));
}

TEST_F(PullTest, StoppedWorkIsResumed) {
  std::atomic<bool> stop{false};
  options.stop = &stop;
  server.on_storage = [&](const Call& call) -> std::optional<Answer> {
    Answer answer = server.answer_from_storage(call);
    answer.cut = 100000;
    return answer;
  };
  options.on_progress = [&](const hub::PullProgress& progress) { stop = progress.done >= 100000; };
  EXPECT_THROW(pull(), Canceled);
  EXPECT_GE(fs::file_size(partial()), 1u);
  stop = false;
  server.on_storage = nullptr;
  options.on_progress = nullptr;
  EXPECT_LT(pull().received, 300000u + 26);
  EXPECT_EQ(slurp(snapshot() / "model.safetensors"), weights());
}

// Each of these would go on for ever if every byte that arrives counted as progress.
TEST_F(PullTest, GivesUpOnAServerThatMakesNoProgress) {
  settings.first_delay = 0.001;
  const auto attempts = [&](auto change) {
    fs::remove_all(repository());
    const std::size_t before = server.storage.calls().size();
    server.on_storage = [&](const Call& call) -> std::optional<Answer> { return change(call); };
    EXPECT_THAT(error(), HasSubstr("the connection "));
    return server.storage.calls().size() - before;
  };
  EXPECT_LE(attempts([&](const Call&) {  // the beginning of the whole file for every range
              Answer answer{200, {}, weights()};
              answer.cut = 100000;
              return answer;
            }),
            8u);
  EXPECT_LE(attempts([&](const Call& call) {  // 416 for every range
              if (!call.header("range").empty()) return Answer{416, {}, ""};
              Answer answer{200, {}, weights()};
              answer.cut = 100000;
              return answer;
            }),
            16u);
  EXPECT_LE(attempts([&](const Call& call) {  // ten bytes a connection
              Answer answer = server.answer_from_storage(call);
              answer.cut = 10;
              return answer;
            }),
            8u);
}

TEST_F(PullTest, RefusesAnEncodedFile) {
  server.on_storage = [this](const Call& call) -> std::optional<Answer> {
    Answer answer = server.answer_from_storage(call);
    answer.headers.emplace_back("Content-Encoding", "gzip");
    return answer;
  };
  EXPECT_THAT(error(), AllOf(HasSubstr("model.safetensors: expected the bytes of the file"),
                             HasSubstr("Content-Encoding gzip"), HasSubstr("NO_PROXY")));
}

TEST_F(PullTest, ADamagedBlobIsNotAdopted) {
  pull();
  fs::remove_all(snapshot());
  std::string damaged = weights();
  damaged[7] ^= 1;
  spill(repository() / "blobs" / kWeightsHash, damaged);
  pull();
  EXPECT_TRUE(slurp(snapshot() / "model.safetensors") == weights());
  EXPECT_EQ(gets("model.safetensors"), 2);
}

TEST_F(PullTest, SaysWhatItCannotCheck) {
  server.files["config.json"].etag = "some-version";
  std::mutex mutex;
  std::string messages;
  options.on_message = [&](const std::string& message) {
    const std::lock_guard lock(mutex);
    messages += message + "\n";
  };
  pull();
  EXPECT_EQ(messages, "config.json: not checked, as its ETag some-version is not a hash\n");
}

TEST_F(PullTest, WritesThroughNoLinkOfTheCache) {
  const fs::path elsewhere = folder / "elsewhere";
  fs::create_directories(elsewhere);
  fs::create_directories(repository() / "snapshots");
  fs::create_directory_symlink(elsewhere, snapshot());
  EXPECT_THAT(error(), HasSubstr("expected a folder, got a symbolic link"));
  EXPECT_TRUE(fs::is_empty(elsewhere));
  fs::remove(snapshot());
  spill(elsewhere / "file", "kept");
  fs::create_directories(repository() / "refs");
  fs::create_symlink(elsewhere / "file", repository() / "refs/main");
  pull();
  EXPECT_EQ(slurp(elsewhere / "file"), "kept");
  EXPECT_EQ(slurp(repository() / "refs/main"), kCommit);
}

TEST_F(PullTest, MalformedNamesAreRefusedBeforeAnyConnection) {
  for (const char* name :
       {"", "a/b/c", "../x", "a/..", "/a", "a b", "a--b/c", "-a/b", "a/b.git", "a/b\n", "owner/"}) {
    options.model = name;
    EXPECT_THAT(error(), HasSubstr("model: expected owner/model")) << name;
  }
  options.model = "owner/model";
  for (const char* revision :
       {"", "..", "a/../b", "/a", "a//b", "a b", "a\nb", ".a", "a.lock", "a@{1}", "-x"}) {
    options.revision = revision;
    EXPECT_THAT(error(), HasSubstr("revision: expected a branch, a tag or a commit")) << revision;
  }
  EXPECT_TRUE(server.hub.calls().empty());
}

}  // namespace
}  // namespace heed::hub_test
