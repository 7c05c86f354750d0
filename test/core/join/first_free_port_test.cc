// SPDX-License-Identifier: Apache-2.0
#include "core/join/first_free_port.h"

#include "core/join/address.h"

#include <hora/status.h>

#include <gtest/gtest.h>
#include <poll.h>

namespace hora {
namespace {

TimePoint in_ten_seconds() { return Clock::now() + std::chrono::seconds(10); }

TEST(FirstFreePort, OpensAtTheFirstFreePortForEveryAddress) {
  const Descriptor taken = listen_at({"0.0.0.0", "0"});
  const std::string taken_port = local_address(taken.fd()).port;
  const Descriptor listener = listen_at_first_free("nowhere.invalid:" + taken_port + ",nowhere.invalid:0");
  const std::string port = local_address(listener.fd()).port;
  EXPECT_NE(port, taken_port);
  const Descriptor caller = begin_connect({"127.0.0.1", port});
  EXPECT_TRUE(await_events(listener.fd(), POLLIN, in_ten_seconds()));
}

TEST(FirstFreePort, SaysWhichPortsAreTaken) {
  const Descriptor taken = listen_at({"0.0.0.0", "0"});
  const std::string points = "n1:" + local_address(taken.fd()).port;
  try {
    static_cast<void>(listen_at_first_free(points));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
    EXPECT_EQ(std::string(error.what()),
              "rank 0 can listen at no port of " + points + ": Address already in use");
  }
}

TEST(FirstFreePort, WantsPorts) {
  for (const char* points : {"n1", "n1:http", "n1:65536", "n1:1x"})
    EXPECT_THROW(static_cast<void>(listen_at_first_free(points)), Error) << points;
}

}  // namespace
}  // namespace hora
