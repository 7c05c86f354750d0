// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/connect.h"

#include "core/backend/local/local_group.h"
#include "core/backend/mpi_module.h"
#include "core/backend/shm/connect_shm.h"
#include "core/backend/shm/shm_collective.h"
#include "core/backend/tcp/control/tcp_control.h"
#include "core/backend/tcp/data/tcp_collective.h"
#include "core/backend/tcp/messages/tcp_messenger.h"
#include "core/compose/hierarchical.h"
#include "core/compose/hosts.h"
#include "core/device/host_stream.h"
#include "core/join/agree.h"
#include "core/join/job_id.h"
#include "core/join/places.h"

#include <fmt/format.h>

namespace hora {
namespace {

/// The ranks of this rank's host, which may be this one alone.
std::unique_ptr<Collective> within_host(shm::SharedHosts& hosts, const Config& config, int rank) {
  if (!hosts.own) return local::LocalGroup(1).join(0).lane.collective;
  const Hosts host = hosts_of(hosts.ranks, rank);
  const shm::ShmWays ways{config.peer_memory, config.streaming_stores, config.levels};
  return shm::make_shm_collective(std::move(hosts.own->arena), static_cast<int>(host.place),
                                  static_cast<int>(host.here().size()), std::move(hosts.own->peers), ways);
}

/// Ranks of one host share memory; hosts of one rank each have sockets; else both.
std::unique_ptr<Collective> connect_collective(const Config& config, World& world, TimePoint deadline) {
  if (config.cpu_operations == "mpi" && config.encryption == "all") {
    throw Error(
        Code::invalid_argument,
        "HORA_ENCRYPTION=all, but MPI moves tensors as it likes; use HORA_CPU_OPERATIONS=auto or tcp");
  }
  if (config.cpu_operations == "mpi") return load_mpi().connect(*world.control, config, deadline);
  if (config.cpu_operations == "tcp") return tcp::connect_tcp(world, config, deadline);
  const auto [rank, size] = std::pair(world.membership.rank, world.membership.size);
  shm::SharedHosts hosts = shm::share_hosts(world, config, deadline);
  if (hosts.ranks.size() == 1) {
    const auto part = [arena = hosts.own->arena](int member) -> VotePart& {
      return arena->block(member).roll;
    };
    world.vote = std::make_unique<ReadinessVote>(size, rank, hosts.own->arena, part);
    return within_host(hosts, config, rank);
  }
  if (config.cpu_operations == "shm") {
    throw Error(Code::unavailable,
                "HORA_CPU_OPERATIONS=shm, but not all ranks can share memory: they run on several "
                "hosts or in several containers; use auto or tcp");
  }
  auto all = tcp::connect_tcp(world, config, deadline);
  if (hosts.ranks.size() == static_cast<std::size_t>(size)) return all;
  auto local = within_host(hosts, config, rank);
  return make_hierarchical(std::move(all), std::move(local), std::move(hosts.ranks), rank);
}

/// A job of one rank.
World alone(const Membership& membership, const Config& config) {
  World world = local::LocalGroup(1).join(0);
  world.membership = membership;
  world.job = job_id(membership, config);
  return world;
}

}  // namespace

World connect(const Membership& membership, Config& config, TimePoint deadline) {
  if (membership.size == 1) return alone(membership, config);
  World world = tcp::connect_tcp_control(membership, config, deadline);
  world.membership.listener = nullptr;  // all have come
  world.membership = settle_places(std::move(world.membership), world.members);
  try {
    agree(config, *world.control, world.members, deadline);
    // Before what may take until the deadline on some ranks: nobody waits here for one that is there.
    world.messenger = tcp::connect_tcp_messenger(world, config, deadline);
    world.lane = {make_host_stream(), connect_collective(config, world, deadline)};
  } catch (const Error& error) {
    world.control->fail(error.status());  // the others wait for this rank
    throw;
  } catch (const std::exception& error) {  // no more threads, no more memory
    world.control->fail({Code::unavailable, error.what()});
    throw;
  }
  return world;
}

}  // namespace hora
