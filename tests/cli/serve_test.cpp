// heed serve: the address it prints, its variables of the environment, its end by a signal, and command lines
// that it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "command.h"
#include "server/client.h"
#include "server/notify_socket.h"

namespace heed::cli_test {
namespace {

using server_test::Client;
using server_test::status_of;
using testing::HasSubstr;

std::uint16_t port_of(const std::string& url) {
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

std::string post(const std::string& path, const std::string& body, const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST(ServeCommand, ServesSeveralModelsUntilItIsToldToEnd) {
  Dialogue command(
      {"serve", encoder("bert-mlm"), HEED_SOURCE "/models/shakespeare", "--port", "0", "--quiet"});
  const std::string url = command.read_line();
  EXPECT_THAT(url, testing::StartsWith("http://127.0.0.1:"));
  const Client client(port_of(url));
  EXPECT_EQ(status_of(client.ask("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")), 200);
  EXPECT_EQ(status_of(client.ask("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n")), 403);
  EXPECT_THAT(client.ask(post("/embed", R"({"inputs": "a b"})")), HasSubstr("\r\n\r\n[["));
  client.send(post("/v1/completions", R"({"prompt": "KING: ", "max_tokens": 200, "stream": true})"));
  client.read_until("data: ");
  command.signal(SIGTERM);  // what was accepted is answered
  EXPECT_THAT(client.read_until("\r\n0\r\n\r\n"), HasSubstr("data: [DONE]"));
  EXPECT_EQ(command.finish(), 0);
}

TEST(ServeCommand, ReadsKeysAndTheEnvironment) {
  const Folder folder;
  spill(folder / "keys.txt", "# of clients\none name=alice requests=4\n\ntwo\r\n");
  ::setenv("HEED_SERVE_PORT", "0", 1);
  ::setenv("HEED_SERVE_MODELS", encoder("bert-mlm").c_str(), 1);
  ::setenv("HEED_API_KEY", "three", 1);
  ::setenv("HEED_SERVE_QUIET", "1", 1);  // the common options, too
  ::setenv("HEED_SERVE_JSON", "true", 1);
  Dialogue command({"serve", "--api-key", "four", "--api-key-file", folder / "keys.txt"});
  const Json address = Json::parse(command.read_line());
  for (const char* name :
       {"HEED_SERVE_PORT", "HEED_SERVE_MODELS", "HEED_API_KEY", "HEED_SERVE_QUIET", "HEED_SERVE_JSON"})
    ::unsetenv(name);
  const auto status = [&](const std::string& key) {
    const Client client(port_of(address["url"]));  // a refusal, before the body is read, ends the connection
    return status_of(
        client.ask(post("/embed", R"({"inputs": "a"})", "Authorization: Bearer " + key + "\r\n")));
  };
  for (const char* key : {"one", "two", "three", "four"}) EXPECT_EQ(status(key), 200) << key;
  EXPECT_EQ(status("five"), 401);
  EXPECT_EQ(status("# of clients"), 401);
  command.signal(SIGTERM);
  EXPECT_EQ(command.finish(), 0);
}

TEST(ServeCommand, SighupReadsKeysAndOpensChangedModels) {
  using std::filesystem::copy;
  constexpr auto kAll = std::filesystem::copy_options::recursive;
  const Folder folder;
  copy(encoder("bert-mlm"), folder.path() / "reader", kAll);
  copy(HEED_SOURCE "/models/shakespeare", folder.path() / "writer", kAll);
  spill(folder / "keys.txt", "one\n");
  Dialogue command({"serve", folder / "reader", folder / "writer", "--api-key-file", folder / "keys.txt",
                    "--port", "0", "--quiet"});
  const std::uint16_t port = port_of(command.read_line());
  const auto asked = [&](const std::string& path, const std::string& body, const std::string& key) {
    const Client client(port);
    return client.ask(post(path, body, "Authorization: Bearer " + key + "\r\n"));
  };
  const auto embedded = [&](const std::string& key) {
    const std::string answer = asked("/embed", R"({"inputs": "a"})", key);
    return status_of(answer) == 200 ? answer.substr(answer.find("\r\n\r\n")) : "refused";
  };
  const std::string before = embedded("one");
  EXPECT_EQ(embedded("two"), "refused");
  const auto completed = [&](const std::string& more) {
    return R"({"prompt": "KING: ", "max_tokens": 200, "temperature": 0)" + more + "}";
  };
  const auto fingerprint_in = [](const std::string& text) {
    const std::size_t at = text.rfind("\"system_fingerprint\":\"");
    return text.substr(at, text.find(',', at) - at);
  };
  const std::string whole = asked("/v1/completions", completed(""), "one");
  const Client streaming(port);
  streaming.send(post("/v1/completions", completed(", \"stream\": true"), "Authorization: Bearer one\r\n"));
  streaming.read_until("data: ");

  // A folder beside the old one, renamed into its place; a file that is none; and other keys.
  copy(encoder("bert-classify"), folder.path() / "new", kAll);
  std::filesystem::rename(folder.path() / "reader", folder.path() / "old");
  std::filesystem::rename(folder.path() / "new", folder.path() / "reader");
  spill(folder / "new.safetensors", "no weights");
  std::filesystem::rename(folder.path() / "new.safetensors", folder.path() / "writer" / "model.safetensors");
  spill(folder / "keys.txt", "two\n");
  command.signal(SIGHUP);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (embedded("two") == "refused" && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(embedded("one"), "refused");
  EXPECT_NE(embedded("two"), before);
  // The writer answers from the old file, to the end of what it had begun and beyond.
  const std::string events = streaming.read_until("\r\n0\r\n\r\n");
  EXPECT_THAT(events, HasSubstr("data: [DONE]"));
  EXPECT_EQ(fingerprint_in(events), fingerprint_in(whole));
  const std::string again = asked("/v1/completions", completed(""), "two");
  EXPECT_EQ(status_of(again), 200);
  EXPECT_EQ(fingerprint_in(again), fingerprint_in(whole));

  std::filesystem::copy_file(HEED_SOURCE "/models/shakespeare/model.safetensors", folder.path() / "whole");
  std::filesystem::rename(folder.path() / "whole", folder.path() / "writer" / "model.safetensors");
  command.signal(SIGHUP);
  const auto current = [&] { return fingerprint_in(asked("/v1/completions", completed(""), "two")); };
  while (current() == fingerprint_in(whole) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_NE(current(), fingerprint_in(whole));
  command.signal(SIGTERM);
  EXPECT_EQ(command.finish(), 0);
}

TEST(ServeCommand, TellsTheServiceManager) {
  const Folder folder;
  const server_test::NotifySocket manager(folder / "notify");
  ::setenv("WATCHDOG_USEC", "400000", 1);
  Dialogue command({"serve", encoder("bert-mlm"), "--port", "0", "--quiet"});
  ::unsetenv("WATCHDOG_USEC");
  const auto next = [&] {
    std::string state = manager.next();
    while (state == "WATCHDOG=1") state = manager.next();
    return state;
  };
  EXPECT_EQ(manager.next(), "READY=1");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(manager.next(), "WATCHDOG=1");
  command.signal(SIGHUP);
  EXPECT_THAT(next(), testing::StartsWith("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_EQ(next(), "READY=1");
  command.signal(SIGTERM);
  EXPECT_EQ(next(), "STOPPING=1");
  EXPECT_EQ(command.finish(), 0);
}

TEST(ServeCommand, NamesModelsAndItsLimits) {
  Dialogue command({"serve", "reader=" + encoder("bert-mlm"), "--port", "0", "--max-body", "1"});
  const Client client(port_of(command.read_line()));
  EXPECT_THAT(client.ask("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              HasSubstr("\"id\":\"reader\""));
  const std::string refused =
      client.ask("POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n");
  EXPECT_EQ(status_of(refused), 413);
  EXPECT_THAT(refused,
              HasSubstr("\"error\":{\"message\":\"request: expected a body of at most 1048576 bytes, got "
                        "1048577 (--max-body 1)\""));
  command.signal(SIGTERM);
  EXPECT_EQ(command.finish(), 0);
}

TEST(ServeCommand, AModelHasOptionsOfItsOwn) {
  Dialogue command({"serve", "reader=" + encoder("bert-mlm") + ",dtype=bf16,alias=text-embedding-3-small",
                    encoder("bert-classify"), "--any-model", "--port", "0", "--quiet"});
  const Client client(port_of(command.read_line()));
  const auto embed = [&](const std::string& name) {
    const std::string answer = client.ask(post("/embed", R"({"inputs": "a", "model": ")" + name + "\"}"));
    EXPECT_EQ(status_of(answer), 200) << answer;
    return answer.substr(answer.find("\r\n\r\n"));
  };
  const std::string reader = embed("reader");
  EXPECT_EQ(embed("text-embedding-3-small"), reader);
  EXPECT_EQ(embed("any"), reader) << "the first that can";
  EXPECT_NE(embed("bert-classify"), reader);
  command.signal(SIGTERM);
  EXPECT_EQ(command.finish(), 0);
}

TEST(ServeCommand, RefusesWrongCommandLines) {
  const std::string model = encoder("bert-mlm");
  expect_error(2, {"serve", model, "--allow-host", ""}, "--allow-host: expected the name of a host");
  expect_error(2, {"serve", model, "--allow-host", "http://a"}, "heed.example.org, got http://a");
  expect_error(2, {"serve", model + ",activations=int4"},
               "activations: expected auto or f32 or int8, got int4");
  expect_error(2, {"serve", model + ",rows=4"},
               "expected activations=, dtype=, adapter= or alias= after the comma, got rows=4");
  expect_error(2, {"serve", model + ",alias=b", "b=" + encoder("bert-classify")},
               "expected models of different names, got b twice");
  expect_error(2, {"serve"}, "serve: expected at least one model");
  expect_error(2, {"serve", model, model}, "expected models of different names, got bert-mlm twice");
  expect_error(2, {"serve", model, "--api-key", ""}, "--api-key: expected a key with characters");
  const Folder folder;
  spill(folder / "keys", "# of clients\nsecret name=alice\nsecret requests=none\n");
  expect_error(1, {"serve", model, "--api-key-file", folder / "keys"},
               "keys: line 3: expected name=, requests=");
  expect_error(2, {"serve", "=" + model}, "serve: expected MODEL or NAME=MODEL");
  expect_error(2, {"serve", "a=" + model, "a=" + model}, "expected models of different names, got a twice");
  expect_error(2, {"serve", model, "--cors-origin", "example.org"},
               "--cors-origin: expected * or an origin such as https://example.org, got example.org");
  expect_error(1, {"serve", HEED_FIXTURES "/vit", "--port", "0"},
               "expected a model of texts or of speech, got a vit image model");
}

TEST(ServeCommand, WarnsOfMisspelledVariables) {
  ::setenv("HEED_SERVE_ROW", "2", 1);
  EXPECT_THAT(run({"serve", HEED_FIXTURES "/vit"}).err,
              HasSubstr("warning: HEED_SERVE_ROW: no option of heed serve has this variable"));
  ::unsetenv("HEED_SERVE_ROW");
}

}  // namespace
}  // namespace heed::cli_test
