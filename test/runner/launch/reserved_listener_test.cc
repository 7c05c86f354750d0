// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/reserved_listener.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace hora::hrun {
namespace {

/// Whether somebody who connects to this address of IPv4 gets through.
bool reaches(in_addr_t where, int port) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(where);
  address.sin_port = htons(static_cast<in_port_t>(port));
  return ::connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

TEST(ReservedListener, OfAJobOnOneMachineIsOnItsLoopback) {
  const ReservedListener listener(true, "");
  EXPECT_TRUE(reaches(INADDR_LOOPBACK, listener.port()));
  EXPECT_FALSE(reaches(INADDR_LOOPBACK + 1, listener.port()));
}

TEST(ReservedListener, OfAJobOnSeveralIsOnAllAddressesOfBothKinds) {
  const ReservedListener listener(false, "");
  EXPECT_TRUE(reaches(INADDR_LOOPBACK, listener.port()));
  EXPECT_TRUE(reaches(INADDR_LOOPBACK + 1, listener.port()));
}

TEST(ReservedListener, OfAJobWithANetworkIsOnThatAlone) {
  const ReservedListener listener(false, "127.0.0.1");
  EXPECT_TRUE(reaches(INADDR_LOOPBACK, listener.port()));
  EXPECT_FALSE(reaches(INADDR_LOOPBACK + 1, listener.port()));
}

}  // namespace
}  // namespace hora::hrun
