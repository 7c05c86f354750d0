// SPDX-License-Identifier: Apache-2.0
#include "runner/preflight/probe_socket.h"

#include <hora/status.h>

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace hora::hrun {
namespace {

TimePoint soon() { return Clock::now() + std::chrono::seconds(20); }

TEST(ProbeSocket, TakesWhoShowsItsToken) {
  const ProbeSocket socket;
  std::thread unknown(
      [&] { static_cast<void>(reach_probe({"127.0.0.1"}, socket.port(), std::string(16, 'x'), 3, soon())); });
  unknown.join();
  const Descriptor late = reach_probe({"127.0.0.1"}, socket.port(), socket.token(), 2, soon());
  const Descriptor connection = reach_probe({"127.0.0.1"}, socket.port(), socket.token(), 3, soon());
  const Descriptor host = socket.accept(3, soon());
  EXPECT_EQ(own_end(connection.fd()), "127.0.0.1");
  EXPECT_EQ(other_end(host.fd()), "127.0.0.1");
  write_all(connection.fd(), std::array{std::byte{7}}, soon());
  std::array<std::byte, 1> received{};
  read_exactly(host.fd(), received, soon());
  EXPECT_EQ(received[0], std::byte{7});
}

TEST(ProbeSocket, WaitsNoLongerThanItMay) {
  EXPECT_THROW(static_cast<void>(ProbeSocket().accept(3, Clock::now() + std::chrono::milliseconds(1))),
               Error);
}

TEST(ReachProbe, TriesAllAddressesAndTellsHowEachFailed) {
  const ProbeSocket socket;
  EXPECT_TRUE(reach_probe({"no address", "127.0.0.1"}, socket.port(), socket.token(), 3, soon()));
  int closed = 0;
  {
    const ProbeSocket gone;
    closed = gone.port();
  }
  try {
    static_cast<void>(reach_probe({"127.0.0.1", "::1"}, closed, socket.token(), 3, soon()));
    FAIL();
  } catch (const Error& error) {
    const std::string port = std::to_string(closed);
    const std::string expected = "127.0.0.1:" + port + ": Connection refused, [::1]:" + port + ": ";
    EXPECT_EQ(std::string(error.what()).substr(0, expected.size()), expected);
  }
}

}  // namespace
}  // namespace hora::hrun
