// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/links.h"
#include "core/backend/tcp/tcp_collective.h"

#include <fcntl.h>

#include <numeric>

namespace hora {

std::unique_ptr<Collective> connect_tcp(Control& control, const std::vector<Member>& members,
                                        const Config& config, TimePoint deadline) {
  const auto links = make_links(control, members, config, deadline);
  std::vector<int> all(members.size());
  std::iota(all.begin(), all.end(), 0);
  control.on_loss([&links](const Status& why) { links->abort(why); });
  try {
    links->require(all);
  } catch (...) {
    control.on_loss({});
    throw;
  }
  control.on_loss({});
  Mesh::Sockets sockets(members.size());
  for (const int rank : all) {
    if (rank == config.rank) continue;
    sockets[static_cast<std::size_t>(rank)] =
        std::make_shared<const Descriptor>(::fcntl(links->sockets(rank).front(), F_DUPFD_CLOEXEC, 0));
  }
  return make_tcp_collective(std::make_unique<Mesh>(config.rank, std::move(sockets)));
}

}  // namespace hora
