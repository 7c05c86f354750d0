// SPDX-License-Identifier: Apache-2.0
#include "core/join/address_book.h"

#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(TellWhere, SaysWhereEveryRankListens) {
  const auto configs = loopback_configs(3);
  auto worlds = connect_tcp_ranks(configs);
  std::vector<AddressBook> address_books(3);
  run_ranks(3, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    address_books[at] = tell_where(worlds[at], configs[at], Clock::now() + configs[at].start_timeout);
  });
  run_ranks(3, [&](int rank) { worlds[static_cast<std::size_t>(rank)].control.reset(); });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const Address own = local_address(address_books[rank].listener.fd());
    EXPECT_EQ(own.host, "127.0.0.1") << "no other host need be able to connect";
    for (const auto& address_book : address_books)
      EXPECT_EQ(address_book.addresses.at(rank), std::vector<Address>{own});
  }
}

TEST(TellWhere, ListensOnTheNetworkAlone) {
  auto configs = loopback_configs(2);
  for (auto& config : configs) config.network = "127.0.0.1";
  auto worlds = connect_tcp_ranks(configs);
  run_ranks(2, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    const AddressBook address_book =
        tell_where(worlds[at], configs[at], Clock::now() + configs[at].start_timeout);
    EXPECT_EQ(local_address(address_book.listener.fd()).host, "127.0.0.1");
  });
  run_ranks(2, [&](int rank) { worlds[static_cast<std::size_t>(rank)].control.reset(); });
}

}  // namespace
}  // namespace hora
