// The end of a service manager: a socket of datagrams, by a path or an abstract name.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace heed::server_test {

class NotifySocket {
 public:
  /// `name`: as $NOTIFY_SOCKET has it, which is set as long as there is this object.
  explicit NotifySocket(std::string name) : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
    const bool is_abstract = name.front() == '@';
    if (is_abstract) name.front() = '\0';
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    const auto length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (is_abstract ? 0 : 1));
    if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), length) != 0)
      throw std::runtime_error("bind failed");
  }
  ~NotifySocket() {
    ::close(socket_);
    ::unsetenv("NOTIFY_SOCKET");
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  /// The next message; empty where none comes within some seconds.
  std::string next(int milliseconds = 20'000) const {
    pollfd waited{socket_, POLLIN, 0};
    if (::poll(&waited, 1, milliseconds) <= 0) return {};
    char bytes[256];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    return {bytes, static_cast<std::size_t>(count)};
  }

 private:
  int socket_;
};

}  // namespace heed::server_test
