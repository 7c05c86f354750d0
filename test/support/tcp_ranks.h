// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <hora/config.h>

#include <vector>

namespace hora {

/// The values that the launcher would give each rank of a job on this machine: a listening socket for rank 0,
/// its address, a secret.
std::vector<Config> loopback_configs(int ranks);
/// The same for ranks that negotiate over a tree.
std::vector<Config> tree_configs(int ranks, int radix);

/// Ranks that are threads, connected by TCP control over loopback.
std::vector<World> connect_tcp_ranks(const std::vector<Config>& configs);

/// The same ranks' collectives over sockets, by rank; nobody watches over them.
std::vector<std::unique_ptr<Collective>> connect_tcp_collectives(int ranks,
                                                                 const std::string& encryption = "control");

/// Messengers over sockets, by rank; nobody watches over them.
std::vector<std::unique_ptr<Messenger>> connect_tcp_messengers(int ranks,
                                                               const std::string& encryption = "control");

}  // namespace hora
