// A fake hub on 127.0.0.1: a server on plain sockets whose handler gives the answers, and a repository that
// answers as the hub does, with large files behind a redirect to another port.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace heed::hub_test {

struct Call {
  std::string method, target;                  // "GET", "/api/models/..."
  std::map<std::string, std::string> headers;  // names in lower case
  std::string header(const std::string& name) const;
};

struct Answer {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::optional<std::size_t> cut = {};     // close the connection after so many bytes of the body
  std::optional<std::size_t> length = {};  // Content-Length, if not the body's
  int wait_ms = 0;                         // delay before the answer
};

class Server {
 public:
  explicit Server(std::function<Answer(const Call&)> handler);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  /// Returns the requests so far.
  std::vector<Call> calls() const;

 private:
  void accept_all();
  void serve(int connection);

  std::function<Answer(const Call&)> handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> closing_{false};
  mutable std::mutex mutex_;
  std::vector<Call> calls_;
  std::vector<std::thread> connections_;
  std::thread acceptor_;
};

struct HubFile {
  std::string content;
  std::string etag;    // computed by other programs: git hash-object, sha256sum
  bool large = false;  // stored elsewhere, behind a redirect
};

inline constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

/// 300,000 bytes, and their SHA-256 by sha256sum.
std::string weights();
inline constexpr const char* kWeightsHash =
    "e6bf660f6165e67ee5538ef51710c8aa1392e476baaf07b3ba47b1b5b8ce2122";

class FakeHub {
 public:
  FakeHub();
  std::string url() const { return hub.url(); }

  std::map<std::string, HubFile> files;
  /// Called first, for both servers. If it returns an answer, that replaces the usual one.
  std::function<std::optional<Answer>(const Call&)> on_hub, on_storage;
  bool ignore_ranges = false;

  Answer answer(const Call& call);
  Answer answer_from_storage(const Call& call);
  /// Returns the number of requests to a server that contain `text`.
  static int count(const Server& server, const std::string& method, const std::string& text);

  Server storage;
  Server hub;  // declared last, so that it is closed first
};

}  // namespace heed::hub_test
