// heed explore: the address it prints, its end by a signal, and command lines that it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "command.h"
#include "server/client.h"

namespace heed::cli_test {
namespace {

using server_test::Client;
using server_test::status_of;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct Address {
  std::string host, port, token;
};

Address parsed(const std::string& url) {
  const std::size_t colon = url.rfind(':'), slash = url.find('/', colon), equals = url.find('=');
  return {url.substr(7, slash - 7), url.substr(colon + 1, slash - colon - 1), url.substr(equals + 1)};
}

std::string post_run(const Client& client, const Address& address, const std::string& body) {
  return client.ask("POST /api/run HTTP/1.1\r\nHost: " + address.host + "\r\nX-Heed-Token: " + address.token +
                    "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
}

TEST(ExploreCommand, ServesUntilItIsInterrupted) {
  Dialogue command({"explore", encoder("bert-mlm"), "--port", "0", "--quiet"});
  const std::string url = command.read_line();
  EXPECT_THAT(url, StartsWith("http://127.0.0.1:"));
  const Address address = parsed(url);
  EXPECT_EQ(address.token.size(), 32u);
  const auto port = static_cast<std::uint16_t>(std::stoi(address.port));
  const Client client(port);
  const std::string host = " HTTP/1.1\r\nHost: " + address.host + "\r\n";
  EXPECT_EQ(status_of(client.ask("GET /?token=" + address.token + host + "\r\n")), 200);
  EXPECT_EQ(status_of(client.ask("GET /" + host + "\r\n")), 403);
  const std::string body = R"({"model": 0, "text": "a [MASK]"})";
  const std::string answer = post_run(client, address, body);
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_THAT(answer, HasSubstr("\"predictions\":[{"));
  const Result second = run({"explore", encoder("bert-mlm"), "--port", address.port});
  EXPECT_EQ(second.status, 1);
  EXPECT_EQ(second.out, "");
  EXPECT_EQ(second.err, "heed: error: --port: 127.0.0.1:" + address.port +
                            " is in use (choose another; --port 0 takes one that is free)\n");
  command.signal(SIGINT);
  EXPECT_EQ(command.finish(), 0);
}

TEST(ExploreCommand, TakesAnImageLargerThanOtherRequests) {
  Dialogue command({"explore", HEED_FIXTURES "/vit", "--port", "0", "--quiet"});
  const Address address = parsed(command.read_line());
  const auto send = [&](const std::string& path, const std::string& bytes) {
    return Client(static_cast<std::uint16_t>(std::stoi(address.port)))
        .ask("POST " + path + " HTTP/1.1\r\nHost: " + address.host + "\r\nX-Heed-Token: " + address.token +
             "\r\nContent-Length: " + std::to_string(bytes.size()) + "\r\n\r\n" + bytes);
  };
  const std::string image = "P6 1000 700 255\n" + std::string(3 * 700 * 1000, '\x7f');
  EXPECT_THAT(send("/api/file?model=0", image), HasSubstr("{\"file\":1}"));
  EXPECT_EQ(status_of(send("/api/run", image)), 413);
  EXPECT_THAT(send("/api/file?model=0", "no image"), HasSubstr("{\"error\":\"image: expected a PNG"));
  EXPECT_THAT(send("/api/run", R"({"model": 0, "file": 1})"), HasSubstr("\"LABEL_"));
  command.signal(SIGINT);
  EXPECT_EQ(command.finish(), 0);
}

// The adapter has a head of four labels, which its base lacks.
TEST(ExploreCommand, PutsTheAdapterIntoTheLastModel) {
  Dialogue command({"explore", encoder("bert-mlm"), encoder("bert-mlm"), "--adapter",
                    HEED_FIXTURES "/adapters/bert-classify", "--port", "0", "--quiet"});
  const Address address = parsed(command.read_line());
  const Client client(static_cast<std::uint16_t>(std::stoi(address.port)));
  const auto classes = [&](int model) {
    const std::string body = R"({"model": )" + std::to_string(model) + R"(, "text": "a [MASK]"})";
    return post_run(client, address, body);
  };
  EXPECT_THAT(classes(0), Not(HasSubstr("LABEL_")));
  EXPECT_THAT(classes(1), HasSubstr("LABEL_3"));
  command.signal(SIGINT);
  EXPECT_EQ(command.finish(), 0);
}

TEST(ExploreCommand, OffersSteeringOfTheLastModel) {
  const Folder folder;
  const std::string file = folder / "v.safetensors", model = encoder("bert-mlm");
  spill(folder / "a.txt", "a b\n");
  spill(folder / "b.txt", "b a b\n");
  const Result made = run({"steer", "--model", model, "--positive", folder / "a.txt", "--negative",
                           folder / "b.txt", "--output", file});
  ASSERT_EQ(made.status, 0) << made.err;
  Dialogue command({"explore", model, model, "--steer", file + "=2", "--port", "0", "--quiet"});
  const Address address = parsed(command.read_line());
  const Client client(static_cast<std::uint16_t>(std::stoi(address.port)));
  EXPECT_THAT(client.ask("GET /api/models HTTP/1.1\r\nHost: " + address.host +
                         "\r\nX-Heed-Token: " + address.token + "\r\n\r\n"),
              HasSubstr(R"("most":2.0,"name":"v.safetensors"}])"));
  EXPECT_EQ(status_of(post_run(client, address, R"({"model": 1, "text": "a [MASK]", "steering": [-1]})")),
            200);
  EXPECT_THAT(post_run(client, address, R"({"model": 0, "text": "a [MASK]", "steering": [-1]})"),
              HasSubstr("steering: expected at most 0 strengths"));
  command.signal(SIGINT);
  EXPECT_EQ(command.finish(), 0);
  expect_error(
      1, {"explore", HEED_SOURCE "/models/reviews", "--steer", file},
      file + ": encoder.layers.0.out: expected a vector of 256 numbers, as many as the model's stream has");
  expect_error(1, {"explore", HEED_SOURCE "/models/shakespeare", "--steer", file},
               file + ": encoder.layers.0.out: expected a layer of the stack decoder, got one of encoder");
  expect_error(2, {"explore", model, "--steer", file + "=-1"}, "expected a largest strength above 0, got -1");
  expect_error(1, {"explore", model, "--steer", folder / "none.safetensors"}, "none.safetensors");
}

TEST(ExploreCommand, WritesAPageOfTextsWithoutServing) {
  const Folder folder;
  const std::string page = folder / "page.html";
  const Result result = run({"explore", encoder("bert-mlm"), "--export", page, "--text", "a [MASK]"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("wrote " + page + " ("));
  EXPECT_THAT(slurp(page), HasSubstr("id=\"recording\">"));
}

TEST(ExploreCommand, WritesNotesAboveAPage) {
  const Folder folder;
  const std::string page = folder / "page.html", notes = folder / "notes.html";
  std::ofstream(notes) << "<h1>Masks</h1>";
  EXPECT_EQ(
      run({"explore", encoder("bert-mlm"), "--export", page, "--text", "a [MASK]", "--export-notes", notes})
          .status,
      0);
  EXPECT_THAT(slurp(page),
              HasSubstr("<section id=\"notes\" aria-label=\"Notes\">\n<h1>Masks</h1></section>"));
}

TEST(ExploreCommand, WritesAPageOfWhatWasAskedAtTheEnd) {
  const Folder folder;
  const std::string page = folder / "page.html";
  Dialogue command({"explore", encoder("bert-mlm"), "--port", "0", "--quiet", "--export", page});
  const Address address = parsed(command.read_line());
  const Client client(static_cast<std::uint16_t>(std::stoi(address.port)));
  EXPECT_EQ(status_of(post_run(client, address, R"({"model": 0, "text": "a [MASK]"})")), 200);
  EXPECT_FALSE(std::filesystem::exists(page));
  command.signal(SIGINT);
  EXPECT_EQ(command.finish(), 0);
  EXPECT_THAT(slurp(page), HasSubstr("id=\"recording\">"));
}

TEST(ExploreCommand, RefusesWrongCommandLines) {
  const std::string model = encoder("bert-mlm");
  expect_error(2, {"explore", model, "--text", "a"}, "--text: needs --export FILE.html");
  expect_error(2, {"explore", model, "--export", "p.html", "--export-head", "encoder.0.0"},
               "--export-head: needs --text");
  expect_error(2, {"explore", model, "--export-notes", "a.html"}, "--export-notes: needs --export FILE.html");
  expect_error(2, {"explore", model, "--export", "p.html", "--export-view", "maps"},
               "--export-view: expected matrix, lines");
  expect_error(2, {"explore", model, "--export", "page.svg"},
               "--export: expected a file name that ends in .html");
  expect_error(2, {"explore", model, "--export", "p.html", "--text", "a", "--target", "b", "--target", "c"},
               "--target: expected at most one for each --text, got 2 for 1");
  expect_error(1, {"explore", HEED_FIXTURES "/vit", "--export", "p.html", "--text", "a"},
               "--text: expected a model that reads text");
  EXPECT_EQ(run({"explore"}).status, 2);
  EXPECT_EQ(run({"explore", model, model, model}).status, 2);
  EXPECT_EQ(run({"explore", model, "--port", "65536"}).status, 2);
  EXPECT_EQ(run({"explore", "no-such-model"}).status, 1);
  expect_error(1, {"explore", HEED_FIXTURES "/vit-model"}, "preprocessor_config.json");
  expect_error(1, {"explore", HEED_FIXTURES "/whisper"}, "preprocessor_config.json");
  expect_error(1, {"explore", HEED_FIXTURES "/speech", "--export", "p.html", "--text", "a"},
               "--text: expected a model that reads text, got speech, which reads sounds");
}

}  // namespace
}  // namespace heed::cli_test
