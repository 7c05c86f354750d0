// SPDX-License-Identifier: Apache-2.0
#include "test/support/hierarchical_ranks.h"

#include "core/backend/shm/shm_collective.h"
#include "core/backend/tcp/data/tcp_collective.h"
#include "core/compose/hierarchical.h"
#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <map>

namespace hora {

std::vector<std::unique_ptr<Collective>> connect_hierarchical_ranks(int ranks,
                                                                    const std::function<int(int rank)>& host,
                                                                    bool reach) {
  std::map<int, std::vector<int>> by_host;
  for (int rank = 0; rank < ranks; ++rank) by_host[host(rank)].push_back(rank);
  std::vector<std::vector<int>> hosts;
  std::vector<std::unique_ptr<Collective>> local(static_cast<std::size_t>(ranks));
  for (const auto& [number, members] : by_host) {
    auto group = shm::make_shm_group(static_cast<int>(members.size()), reach);
    for (std::size_t place = 0; place < members.size(); ++place)
      local[static_cast<std::size_t>(members[place])] = std::move(group[place]);
    hosts.push_back(members);
  }
  auto world = connect_tcp_collectives(ranks);
  std::vector<std::unique_ptr<Collective>> all(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    all[at] = make_hierarchical(std::move(world[at]), std::move(local[at]), hosts, rank);
  });
  return all;
}

}  // namespace hora
