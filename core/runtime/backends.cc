// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/backends.h"

#include "core/backend/local/local_group.h"
#include "core/backend/mpi_module.h"
#include "core/backend/shm/connect_shm.h"
#include "core/backend/shm/shared_control.h"
#include "core/backend/shm/shm_collective.h"
#include "core/backend/tcp/data/tcp_collective.h"
#include "core/base/descriptor.h"
#include "core/compose/hierarchical.h"
#include "core/compose/hosts.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <array>

namespace hora {
namespace {

/// The collective of the ranks on this rank's host. This rank may be alone there.
std::unique_ptr<Collective> within_host(const shm::SharedHosts& hosts, const Config& config) {
  if (!hosts.own) return local::LocalGroup(1).join(0).lane.collective;
  const shm::ShmWays ways{config.peer_memory, config.streaming_stores, config.levels};
  return shm::make_shm_collective(hosts.own->communicator, hosts.own->peers, ways);
}

/// The collective of all ranks, which are on one host. They agree in shared memory.
std::unique_ptr<Collective> within_one_host(const shm::SharedHosts& hosts, World& world,
                                            const Config& config) {
  const auto communicator = std::make_shared<const shm::Communicator>(hosts.own->communicator);
  const auto part = [&](int place) -> VotePart& { return communicator->block(place).roll; };
  world.vote =
      std::make_unique<ReadinessVote>(communicator->size(), communicator->place(), communicator, part);
  world.control = shm::make_shared_control(std::move(world.control), communicator);
  return within_host(hosts, config);
}

std::unique_ptr<Collective> connect_shm(World& world, const Config& config, TimePoint deadline) {
  const shm::SharedHosts hosts = shm::share_hosts(world, config, deadline);
  if (hosts.ranks.size() == 1) return within_one_host(hosts, world, config);
  throw Error(Code::unavailable,
              "HORA_CPU_OPERATIONS=shm, but not all ranks can share memory: they run on several hosts or in "
              "several containers; use auto or tcp");
}

std::unique_ptr<Collective> connect_tcp(World& world, const Config& config, TimePoint deadline) {
  return tcp::connect_tcp(world, config, deadline);
}

std::unique_ptr<Collective> connect_mpi(World& world, const Config& config, TimePoint deadline) {
  if (config.encryption == "all") {
    throw Error(
        Code::invalid_argument,
        "HORA_ENCRYPTION=all, but MPI moves tensors as it likes; use HORA_CPU_OPERATIONS=auto or tcp");
  }
  return load_mpi().connect(*world.control, config, deadline);
}

/// Uses shared memory if all ranks are on one host, sockets if each host has one rank, and otherwise both.
std::unique_ptr<Collective> connect_auto(World& world, const Config& config, TimePoint deadline) {
  shm::SharedHosts hosts = shm::share_hosts(world, config, deadline);
  if (hosts.ranks.size() == 1) return within_one_host(hosts, world, config);
  auto all = connect_tcp(world, config, deadline);
  if (hosts.ranks.size() == static_cast<std::size_t>(world.membership.size)) return all;
  auto local = within_host(hosts, config);
  return make_hierarchical(std::move(all), std::move(local), std::move(hosts.ranks), world.membership.rank);
}

BackendStatus look_at_shm() {
  const Descriptor memory(::memfd_create("hora-check", MFD_CLOEXEC));
  return {static_cast<bool>(memory), "shared memory between the ranks of a host (memfd_create)"};
}

BackendStatus look_at_tcp() { return {true, "control, and data where memory cannot be shared"}; }

BackendStatus look_at_mpi() {
  try {
    return {true, fmt::format("{}, by {}", load_mpi().library(), mpi_module_path())};
  } catch (const Error& error) {
    return {false, error.what()};
  }
}

constexpr std::array kBackends{
    Backend{"shm", look_at_shm, connect_shm},
    Backend{"tcp", look_at_tcp, connect_tcp},
    Backend{"mpi", look_at_mpi, connect_mpi},
};

}  // namespace

std::span<const Backend> backends() { return kBackends; }

decltype(Backend::connect) backend_of(const Config& config) {
  if (config.cpu_operations == "auto") return connect_auto;
  std::string known = "auto";
  for (const Backend& backend : kBackends) {
    if (backend.name == config.cpu_operations) return backend.connect;
    known += fmt::format(", {}", backend.name);
  }
  throw Error(Code::invalid_argument,
              fmt::format("HORA_CPU_OPERATIONS='{}': expected one of {}", config.cpu_operations, known));
}

}  // namespace hora
