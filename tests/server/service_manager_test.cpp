// Messages to a socket that stands for systemd's.
#include "server/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/error.h"
#include "reference/temporary_folder.h"
#include "server/notify_socket.h"

namespace heed::server_test {
namespace {

using server::ServiceManager;

TEST(ServiceManager, TellsItsState) {
  const TemporaryFolder folder;
  for (const std::string& name :
       {(folder.path() / "notify").string(), "@heed-" + std::to_string(::getpid())}) {
    const NotifySocket manager(name);
    ServiceManager service;
    service.ready();
    EXPECT_EQ(manager.next(), "READY=1");
    service.reloading();
    EXPECT_THAT(manager.next(), testing::MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+"));
    service.alive();  // no watchdog
    service.stopping();
    EXPECT_EQ(manager.next(), "STOPPING=1");
  }
}

TEST(ServiceManager, TellsTheWatchdogInTime) {
  const TemporaryFolder folder;
  const NotifySocket manager((folder.path() / "notify").string());
  ::setenv("WATCHDOG_USEC", "40000", 1);
  ServiceManager service;
  ::setenv("WATCHDOG_PID", "1", 1);  // another process is watched
  ServiceManager other;
  ::unsetenv("WATCHDOG_PID");
  ::unsetenv("WATCHDOG_USEC");
  other.alive();
  service.ready();
  EXPECT_EQ(manager.next(), "READY=1");
  service.alive();
  service.alive();  // too early
  EXPECT_EQ(manager.next(), "WATCHDOG=1");
  EXPECT_EQ(manager.next(0), "");
  ::usleep(11'000);
  service.alive();
  EXPECT_EQ(manager.next(), "WATCHDOG=1");
}

TEST(ServiceManager, IsSilentWithoutASocket) {
  ::unsetenv("NOTIFY_SOCKET");
  ServiceManager().ready();
  ::setenv("NOTIFY_SOCKET", "relative", 1);
  EXPECT_ERROR(ServiceManager(),
               "NOTIFY_SOCKET: expected the path of a socket, or @ and its name, got relative");
  ::setenv("NOTIFY_SOCKET", "/nowhere/notify", 1);
  ServiceManager().ready();
  ::unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace heed::server_test
