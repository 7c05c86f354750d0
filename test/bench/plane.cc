// SPDX-License-Identifier: Apache-2.0
#include "test/bench/plane.h"

#include "core/join/find_membership.h"
#include "core/backend/local/local_group.h"
#include "core/backend/shm/connect_shm.h"
#include "core/backend/shm/shm_collective.h"
#include "core/backend/tcp/control/tcp_control.h"
#include "core/join/exchange.h"

#include <cstring>

namespace hora::bench {
namespace {

/// An arena for one rank, which has nobody to share it with.
shm::SharedHost alone() {
  constexpr std::size_t kRegion = std::size_t{4} << 30;
  auto mapping = std::make_shared<const shm::Mapping>(shm::Arena::create_file(1, kRegion),
                                                      shm::Arena::file_bytes(1, kRegion));
  return {{shm::Arena::make(std::move(mapping), 0, 1, kRegion), 0, 1}, nullptr};
}

}  // namespace

Plane connect_plane(const Config& config) {
  const TimePoint deadline = Clock::now() + config.start_timeout;
  Plane plane;
  plane.world = config.size == 1 ? local::LocalGroup(1).join(0)
                                 : tcp::connect_tcp_control(membership_of(config), config, deadline);
  auto hosts =
      config.size == 1 ? shm::SharedHosts{{{0}}, alone()} : shm::share_hosts(plane.world, config, deadline);
  if (!hosts.own || hosts.ranks.size() > 1) {
    throw Error(Code::unavailable,
                "these ranks share no memory; hora_bench --level runtime measures them all the same");
  }
  plane.arena = hosts.own->communicator.shared_arena();
  plane.collective = shm::make_shm_collective(hosts.own->communicator, hosts.own->peers,
                                              {config.peer_memory, config.streaming_stores, config.levels});
  plane.world.control->on_loss(
      [&collective = *plane.collective](const Status& why) { collective.abort(why); });
  return plane;
}

std::vector<std::byte*> everybodys(Plane& plane, std::byte* mine) {
  const std::int64_t offset = mine - plane.arena->base();
  const auto told = exchange(*plane.world.control, std::as_bytes(std::span(&offset, 1)),
                             Clock::now() + std::chrono::seconds(30));
  std::vector<std::byte*> all;
  for (const auto& bytes : told) {
    std::int64_t theirs = 0;
    if (bytes.size() != sizeof theirs)
      throw Error(Code::internal, "a rank did not tell where its buffer lies");
    std::memcpy(&theirs, bytes.data(), sizeof theirs);
    all.push_back(plane.arena->base() + theirs);
  }
  return all;
}

}  // namespace hora::bench
