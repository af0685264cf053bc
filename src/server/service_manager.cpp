// The protocol by hand, as it is a line.
#include "server/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>

#include "heed/error.h"

namespace heed::server {
namespace {

using Clock = std::chrono::steady_clock;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// 0 for what is no number.
std::int64_t number_in(const char* name) { return std::strtoll(variable(name).c_str(), nullptr, 10); }

}  // namespace

ServiceManager::ServiceManager() : socket_(variable("NOTIFY_SOCKET")) {
  if (socket_.empty()) return;
  const bool is_abstract = socket_.front() == '@';
  if ((socket_.front() != '/' && !is_abstract) || socket_.size() >= sizeof(sockaddr_un::sun_path))
    throw Error("NOTIFY_SOCKET: expected the path of a socket, or @ and its name, got " + socket_ +
                " (unset it)");
  if (is_abstract) socket_.front() = '\0';
  const std::int64_t process = number_in("WATCHDOG_PID");
  if (process == 0 || process == ::getpid())
    watchdog_ = std::chrono::microseconds(number_in("WATCHDOG_USEC"));
}

void ServiceManager::ready() const { tell("READY=1"); }
void ServiceManager::stopping() const { tell("STOPPING=1"); }

void ServiceManager::reloading() const {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  tell("RELOADING=1\nMONOTONIC_USEC=" +
       std::to_string(std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000));
}

void ServiceManager::alive() {
  if (watchdog_.count() <= 0 || Clock::now() < due_) return;
  due_ = Clock::now() + watchdog_ / 4;
  tell("WATCHDOG=1");
}

void ServiceManager::tell(const std::string& state) const {
  if (socket_.empty()) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  // The length ends an abstract name, which may have zeros.
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size() +
                                             (socket_.front() == '\0' ? 0 : 1));
  const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return;
  static_cast<void>(::sendto(descriptor, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                             reinterpret_cast<const sockaddr*>(&address), length));
  ::close(descriptor);
}

}  // namespace heed::server
