// SPDX-License-Identifier: Apache-2.0
#include "core/join/listener.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace hora {
namespace {

bool answers(std::uint16_t port, in_addr_t where = INADDR_LOOPBACK) {
  const Descriptor caller(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(where);
  address.sin_port = htons(port);
  return ::connect(caller.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

TEST(Listener, IsReachedAtItsPort) {
  const Descriptor everywhere = listen_everywhere();
  const Descriptor here = listen_on_loopback();
  ASSERT_TRUE(everywhere && here);
  EXPECT_TRUE(answers(port_of(everywhere)));
  EXPECT_TRUE(answers(port_of(here)));
}

TEST(Listener, DoesNotTakeAPortThatIsTaken) {
  const Descriptor first = listen_everywhere();
  const Descriptor second = listen_everywhere(port_of(first));
  EXPECT_FALSE(second);
  EXPECT_EQ(errno, EADDRINUSE);
}

TEST(Listener, OfANetworkIsReachedAtItsAddressAlone) {
  const Descriptor chosen = listen_on_network("127.0.0.1");
  EXPECT_TRUE(answers(port_of(chosen)));
  EXPECT_FALSE(answers(port_of(chosen), INADDR_LOOPBACK + 1));
  const Descriptor any = listen_on_network("");
  EXPECT_TRUE(answers(port_of(any), INADDR_LOOPBACK + 1));
  EXPECT_THROW(static_cast<void>(listen_on_network("240.0.0.1")), Error);
}

}  // namespace
}  // namespace hora
