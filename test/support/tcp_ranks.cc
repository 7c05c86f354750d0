// SPDX-License-Identifier: Apache-2.0
#include "test/support/tcp_ranks.h"

#include "core/join/find_membership.h"
#include "core/backend/tcp/control/tcp_control.h"
#include "core/backend/tcp/data/tcp_collective.h"
#include "core/backend/tcp/messages/tcp_messenger.h"
#include "core/join/address.h"
#include "test/support/threads.h"

#include <unistd.h>

#include <random>

namespace hora {

std::vector<Config> loopback_configs(int ranks) {
  static std::vector<Descriptor>
      listeners;  // for as long as the test program runs, as a launcher would keep them
  listeners.push_back(listen_at({"127.0.0.1", "0"}));
  const Address address = local_address(listeners.back().fd());
  std::random_device random;
  Config config;
  for (auto& byte : config.secret) byte = static_cast<unsigned char>(random());
  config.size = config.local_size = ranks;
  config.coordinator = address.host + ":" + address.port;
  std::vector<Config> configs(static_cast<std::size_t>(ranks), config);
  for (int rank = 0; rank < ranks; ++rank) {
    configs[static_cast<std::size_t>(rank)].rank = configs[static_cast<std::size_t>(rank)].local_rank = rank;
  }
  configs.front().coordinator_fd = listeners.back().fd();
  return configs;
}

std::vector<Config> tree_configs(int ranks, int radix) {
  auto configs = loopback_configs(ranks);
  for (auto& config : configs) config.tree_radix = radix;
  return configs;
}

std::vector<World> connect_tcp_ranks(const std::vector<Config>& configs) {
  std::vector<World> worlds(configs.size());
  run_ranks(static_cast<int>(configs.size()), [&](int rank) {
    const auto& config = configs[static_cast<std::size_t>(rank)];
    worlds[static_cast<std::size_t>(rank)] =
        tcp::connect_tcp_control(membership_of(config), config, Clock::now() + config.start_timeout);
  });
  return worlds;
}

std::vector<std::unique_ptr<Collective>> connect_tcp_collectives(int ranks, const std::string& encryption) {
  auto configs = loopback_configs(ranks);
  for (auto& config : configs) config.encryption = encryption;
  auto worlds = connect_tcp_ranks(configs);
  std::vector<std::unique_ptr<Collective>> all(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    all[at] = tcp::connect_tcp(worlds[at], configs[at], Clock::now() + configs[at].start_timeout);
  });
  run_ranks(ranks, [&](int rank) { worlds[static_cast<std::size_t>(rank)].control.reset(); });
  return all;
}

std::vector<std::unique_ptr<Messenger>> connect_tcp_messengers(int ranks, const std::string& encryption) {
  auto configs = loopback_configs(ranks);
  for (auto& config : configs) config.encryption = encryption;
  auto worlds = connect_tcp_ranks(configs);
  std::vector<std::unique_ptr<Messenger>> all(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    all[at] = tcp::connect_tcp_messenger(worlds[at], configs[at], Clock::now() + configs[at].start_timeout);
  });
  run_ranks(ranks, [&](int rank) { worlds[static_cast<std::size_t>(rank)].control.reset(); });
  return all;
}

}  // namespace hora
