// What systemd learns of a server (sd_notify(3)): a datagram to the socket that $NOTIFY_SOCKET names.
#pragma once

#include <chrono>
#include <string>

namespace heed::server {

/// Where the variable is not set, nothing is told. A message that cannot be sent is lost.
class ServiceManager {
 public:
  /// Reads $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID. Throws Error for a socket that has no such name.
  ServiceManager();

  void ready() const;      ///< after the start, and after reloading()
  void reloading() const;  ///< until ready()
  void stopping() const;
  /// Tells the watchdog that the server works, if that is due: four times in its time. Call it again and
  /// again.
  void alive();

 private:
  void tell(const std::string& state) const;

  std::string socket_;                     // its address, as bind() takes it; empty: none
  std::chrono::microseconds watchdog_{0};  // 0: none
  std::chrono::steady_clock::time_point due_;
};

}  // namespace heed::server
