#include "server/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace heed::server_test {
namespace {

constexpr int kWait = 10'000;  // milliseconds

// The next byte; nothing at the end.
std::optional<char> next_byte(int socket) {
  pollfd waiting{socket, POLLIN, 0};
  char c = 0;
  if (::poll(&waiting, 1, kWait) != 1 || ::recv(socket, &c, 1, 0) != 1) return std::nullopt;
  return c;
}

}  // namespace

Client::Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("no server");
}

Client::~Client() { ::close(socket_); }

void Client::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void Client::end_sending() const { ::shutdown(socket_, SHUT_WR); }

std::string Client::read_until(std::string_view end) const {
  std::string text;
  while (!text.ends_with(end)) {
    const auto c = next_byte(socket_);
    if (!c) break;
    text += *c;
  }
  return text;
}

std::string Client::answer() const {
  std::string text = read_until("\r\n\r\n");
  if (!text.ends_with("\r\n\r\n")) return text;
  const std::size_t length = text.find("Content-Length: ");
  const std::size_t size =
      length == std::string::npos ? 0 : std::strtoul(text.c_str() + length + 16, nullptr, 10);
  const std::size_t head = text.size();
  while (text.size() < head + size) {
    const auto c = next_byte(socket_);
    if (!c) return text;
    text += *c;
  }
  return text;
}

bool Client::is_closed() const { return !next_byte(socket_); }

int status_of(std::string_view answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::atoi(std::string(answer.substr(9, 3)).c_str()) : 0;
}

}  // namespace heed::server_test
