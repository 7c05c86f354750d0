// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/reserved_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdint>
#include <utility>

namespace hora::hrun {
namespace {

enum class Reuse { no, yes };

/// A socket that listens at a port, on all addresses as torch.distributed's; or none.
Descriptor listen_at(int port, Reuse reuse) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int reuses = reuse == Reuse::yes ? 1 : 0;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &reuses, sizeof reuses);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_ANY);
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(socket.fd(), reinterpret_cast<sockaddr*>(&where), sizeof where) != 0) return {};
  return ::listen(socket.fd(), 1) == 0 ? std::move(socket) : Descriptor();
}

TEST(ReservedPort, IsForWhoKnowsItsNumberAgainAndAgain) {
  const ReservedPort port;
  EXPECT_GT(port.number(), 0);
  for (int time = 0; time < 2; ++time) EXPECT_TRUE(listen_at(port.number(), Reuse::yes));
}

TEST(ReservedPort, IsTakenForEverybodyElse) {
  const ReservedPort port;
  EXPECT_FALSE(listen_at(port.number(), Reuse::no));
  EXPECT_NE(ReservedPort().number(), port.number());
}

}  // namespace
}  // namespace hora::hrun
