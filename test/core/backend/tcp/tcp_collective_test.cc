// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/tcp_collective.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace hora {
namespace {

TEST(TcpCollective, APeerWhoseSocketClosesIsNamed) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Mesh::Sockets sockets(2);
  sockets[1] = std::make_shared<const Descriptor>(ends[0]);
  const auto collective = make_tcp_collective(std::make_unique<Mesh>(0, std::move(sockets)));
  const Descriptor other(ends[1]);
  ::shutdown(other.fd(), SHUT_RDWR);
  try {
    collective->barrier();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1 is gone: its data connection closed");
  }
}

}  // namespace
}  // namespace hora
