// SPDX-License-Identifier: Apache-2.0
#include "core/join/address.h"

#include "core/join/listener.h"
#include "core/join/network.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>

namespace hora {
namespace {

TEST(ParseAddress, TakesNamesAndBothKindsOfNumbers) {
  EXPECT_EQ(parse_address("node7:80").host, "node7");
  EXPECT_EQ(parse_address("127.0.0.1:80").port, "80");
  EXPECT_EQ(parse_address("[::1]:80").host, "::1");
  for (const char* wrong : {"", "node7", "node7:", ":80", "[::1]", "[::1:80"}) {
    EXPECT_THROW(static_cast<void>(parse_address(wrong)), Error) << wrong;
  }
}

TEST(ParseAddresses, TakesListsAndFormatGivesThemBack) {
  const auto all = parse_addresses("node7:80,[fd00::1]:81,10.1.0.1:82");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(format(all[0]) + "," + format(all[1]) + "," + format(all[2]),
            "node7:80,[fd00::1]:81,10.1.0.1:82");
  EXPECT_THROW(static_cast<void>(parse_addresses("node7:80,")), Error);
  EXPECT_THROW(static_cast<void>(parse_addresses("")), Error);
}

TEST(ResolveName, GivesNumbersOrSaysWhyNot) {
  std::string why;
  EXPECT_EQ(resolve_name({"127.0.0.2", "7"}, why), (std::vector<Address>{{"127.0.0.2", "7"}}));
  EXPECT_EQ(why, "");
  for (const auto& address : resolve_name({"localhost", "7"}, why)) EXPECT_TRUE(is_loopback(address.host));
  EXPECT_TRUE(resolve_name({"no-such-host.invalid", "7"}, why).empty());
  EXPECT_NE(why.find("no-such-host.invalid: "), std::string::npos) << why;
}

bool reaches(const Address& address) {
  const Descriptor socket = begin_connect(address);
  if (!socket || !await_events(socket.fd(), POLLOUT, Clock::now() + std::chrono::seconds(5))) return false;
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0;
}

TEST(BeginConnect, FindsWhoListens) {
  const Descriptor listener = listen_at({"127.0.0.1", "0"});
  const Address address = local_address(listener.fd());
  EXPECT_TRUE(reaches(address));
  EXPECT_FALSE(reaches({"127.0.0.2", address.port}));
  EXPECT_FALSE(begin_connect({"localhost", address.port})) << "numbers only";
}

TEST(ListenEverywhere, TakesBothKindsAndNamesThemByTheirOwnNumbers) {
  const Descriptor listener = listen_everywhere();
  const std::string port = local_address(listener.fd()).port;
  const Descriptor connection = begin_connect({"127.0.0.2", port});
  ASSERT_TRUE(await_events(listener.fd(), POLLIN, Clock::now() + std::chrono::seconds(5)));
  const Descriptor socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_EQ(local_address(socket.fd()).host, "127.0.0.2");
  EXPECT_EQ(remote_address(socket.fd()), local_address(connection.fd()));
}

std::string congestion_control(const Descriptor& socket) {
  std::array<char, 16> name{};
  socklen_t length = name.size();
  ::getsockopt(socket.fd(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &length);
  return name.data();
}

TEST(PrepareDataSocket, TakesPlainTcpWithinAMachine) {
  const Descriptor listener = listen_at({"127.0.0.1", "0"});
  const Descriptor socket = begin_connect(local_address(listener.fd()));
  ASSERT_TRUE(await_events(socket.fd(), POLLOUT, Clock::now() + std::chrono::seconds(5)));
  prepare_data_socket(socket.fd());
  EXPECT_EQ(congestion_control(socket), "reno");
}

TEST(PrepareDataSocket, LeavesOthersAsTheyAre) {
  const Descriptor unconnected(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string before = congestion_control(unconnected);
  prepare_data_socket(unconnected.fd());
  EXPECT_EQ(congestion_control(unconnected), before);
}

TEST(ListenAt, NamesTheAddressThatIsNotOurs) {
  try {
    static_cast<void>(listen_at({"240.0.0.1", "7"}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("cannot listen at 240.0.0.1:7: ", 0), 0U) << error.what();
  }
}

}  // namespace
}  // namespace hora
