// A client on a plain socket, which can say what no browser says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heed::server_test {

class Client {
 public:
  explicit Client(std::uint16_t port);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes) const;
  /// Closes this end for sending; answers still arrive.
  void end_sending() const;
  /// The next answer: status line, headers and body; empty where the server closes without one.
  std::string answer() const;
  /// Sends a request and returns its answer.
  std::string ask(std::string_view bytes) const {
    send(bytes);
    return answer();
  }
  /// What the server sends, up to and including `end`; less where it closes before.
  std::string read_until(std::string_view end) const;
  /// Whether the server closes the connection within a few seconds.
  bool is_closed() const;

 private:
  int socket_ = -1;
};

/// 200 of `HTTP/1.1 200 OK …`; 0 of none.
int status_of(std::string_view answer);

}  // namespace heed::server_test
