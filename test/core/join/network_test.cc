// SPDX-License-Identifier: Apache-2.0
#include "core/join/network.h"

#include "test/support/own_network.h"

#include <hora/status.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<InterfaceAddress> kHost{
    {"lo", "127.0.0.1"},
    {"docker0", "172.17.0.1"},
    {"ib0", "fd00:1::7"},
    {"ib0", "fe80::1"},
    {"eth0", "10.1.2.3"},
    {"br-3fa2", "172.18.0.1"},
    {"eth1:back", "10.2.0.3"},
    {"eth2", "169.254.7.7"},
    {"eth3", "10.3.0.1", false},
    {"virbr0", "192.168.122.1"},
    {"lo", "::1"},
};

std::string why_no_network(const std::string& network) {
  try {
    static_cast<void>(choose_addresses(kHost, network));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "accepted";
}

TEST(ChooseAddresses, PutsRealInterfacesAndIpv4First) {
  EXPECT_THAT(choose_addresses(kHost, ""), ElementsAre("10.1.2.3", "10.2.0.3", "fd00:1::7", "172.17.0.1",
                                                       "172.18.0.1", "10.3.0.1", "192.168.122.1"));
}

TEST(ChooseAddresses, TakesTheLoopbackWhereThereIsNothingElse) {
  EXPECT_THAT(choose_addresses(std::vector<InterfaceAddress>{{"lo", "127.0.0.1"}, {"eth0", "fe80::1"}}, ""),
              ElementsAre("127.0.0.1"));
  EXPECT_THAT(choose_addresses({}, ""), ElementsAre("127.0.0.1"));
}

TEST(ChooseAddresses, SelectsByNetworkNameAndAddressInTheOrderGiven) {
  EXPECT_THAT(choose_addresses(kHost, "10.2.0.0/16"), ElementsAre("10.2.0.3"));
  EXPECT_THAT(choose_addresses(kHost, "10.2.9.9/16"), ElementsAre("10.2.0.3"));
  EXPECT_THAT(choose_addresses(kHost, "10.0.0.0/14"), ElementsAre("10.1.2.3", "10.2.0.3", "10.3.0.1"));
  EXPECT_THAT(choose_addresses(kHost, "10.1.2.3"), ElementsAre("10.1.2.3"));
  EXPECT_THAT(choose_addresses(kHost, "fd00::/8"), ElementsAre("fd00:1::7"));
  EXPECT_THAT(choose_addresses(kHost, "ib0"), ElementsAre("fd00:1::7")) << "link-local ones need a scope";
  EXPECT_THAT(choose_addresses(kHost, "eth1"), ElementsAre("10.2.0.3"));
  EXPECT_THAT(choose_addresses(kHost, "docker0, eth9, 0.0.0.0/0"),
              ElementsAre("172.17.0.1", "10.1.2.3", "10.2.0.3", "169.254.7.7", "172.18.0.1", "10.3.0.1",
                          "192.168.122.1", "127.0.0.1"));
  EXPECT_THAT(choose_addresses(kHost, "lo"), ElementsAre("127.0.0.1", "::1"));
}

TEST(ChooseAddresses, ListsWhatThereIsWhenNothingFits) {
  EXPECT_THAT(why_no_network("10.9.0.0/16"), HasSubstr("HORA_NETWORK='10.9.0.0/16': selects no address"));
  EXPECT_THAT(why_no_network("eth"), HasSubstr("docker0 172.17.0.1, ib0 fd00:1::7"));
}

TEST(ChooseAddresses, RefusesWhatIsNeitherNetworkNorName) {
  for (const char* wrong :
       {"10.1.0.0/33", "10.1.0.0/", "10.1.0.0/-1", "10.1.0.0/8x", "10.1.0/16", "fd00::/129", "eth0/24", ",",
        "eth0,", "eth 0", "an-interface-with-a-long-name"}) {
    EXPECT_THAT(why_no_network(wrong), HasSubstr("is no network")) << wrong;
    EXPECT_THAT(why_no_network(wrong), HasSubstr("10.1.0.0/16")) << wrong;
  }
}

TEST(OwnAddresses, AreThoseOfTheInterfacesThatAreUp) {
  const bool possible = run_in_own_network(
      {"ip link set lo up", "ip link add docker0 type bridge", "ip addr add 172.17.0.1/16 dev docker0",
       "ip link add fast7 type veth peer name other", "ip addr add 10.7.0.1/24 dev fast7",
       "ip addr add fd07::1/64 dev fast7 nodad", "ip addr add 10.8.0.1/24 dev other",
       "ip link set docker0 up", "ip link set fast7 up", "ip link set other up",
       "ip link add down0 type veth peer name down1", "ip addr add 10.9.0.1/24 dev down0",
       // The kernel says a moment later that they run.
       "until ip link show fast7 | grep -q 'state UP'; do :; done",
       "until ip link show other | grep -q 'state UP'; do :; done"},
      [] {
        EXPECT_THAT(own_addresses(""),
                    testing::UnorderedElementsAre("10.7.0.1", "10.8.0.1", "fd07::1", "172.17.0.1"));
        EXPECT_EQ(own_addresses("")[2], "fd07::1");
        EXPECT_EQ(own_addresses("")[3], "172.17.0.1");
        EXPECT_THAT(own_addresses("docker0"), ElementsAre("172.17.0.1"));
        EXPECT_THAT(own_addresses("fd07::/16,fast7"), ElementsAre("fd07::1", "10.7.0.1"));
        EXPECT_THROW(static_cast<void>(own_addresses("10.9.0.0/16")), Error);
      });
  if (!possible) GTEST_SKIP() << "a network of its own needs root and iproute2";
}

TEST(OwnAddresses, OfAMachineWithoutANetworkAreTheLoopback) {
  const bool possible = run_in_own_network({"ip link set lo up"},
                                           [] { EXPECT_THAT(own_addresses(""), ElementsAre("127.0.0.1")); });
  if (!possible) GTEST_SKIP() << "a network of its own needs root and iproute2";
}

}  // namespace
}  // namespace hora
