// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/connect.h"

#include "core/backend/local/local_group.h"
#include "core/backend/mpi_module.h"
#include "core/backend/shm/connect_shm.h"
#include "core/backend/shm/shm_collective.h"
#include "core/backend/tcp/control/tcp_control.h"
#include "core/backend/tcp/data/tcp_collective.h"
#include "core/backend/tcp/messages/tcp_messenger.h"
#include "core/base/job_seat.h"
#include "core/compose/hierarchical.h"
#include "core/compose/hosts.h"
#include "core/device/host_stream.h"
#include "core/join/agree.h"
#include "core/join/door.h"
#include "core/join/gathering.h"
#include "core/join/job_id.h"
#include "core/join/places.h"
#include "core/join/secret_file.h"

#include <fmt/format.h>

namespace hora {
namespace {

/// The ranks of this rank's host, which may be this one alone.
std::unique_ptr<Collective> within_host(shm::SharedHosts& hosts, const Config& config) {
  if (!hosts.own) return local::LocalGroup(1).join(0).lane.collective;
  const Hosts host = hosts_of(hosts.ranks, config.rank);
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
  if (config.cpu_operations == "tcp")
    return tcp::connect_tcp(*world.control, world.members, config, deadline);
  shm::SharedHosts hosts = shm::share_hosts(*world.control, config, deadline);
  if (hosts.ranks.size() == 1) {
    const auto seat = [arena = hosts.own->arena](int rank) -> RollcallSeat& {
      return arena->block(rank).roll;
    };
    world.rollcall = std::make_unique<Rollcall>(config.size, config.rank, hosts.own->arena, seat);
    return within_host(hosts, config);
  }
  if (config.cpu_operations == "shm") {
    throw Error(Code::unavailable,
                "HORA_CPU_OPERATIONS=shm, but not all ranks can share memory: they run on several "
                "hosts or in several containers; use auto or tcp");
  }
  auto all = tcp::connect_tcp(*world.control, world.members, config, deadline);
  if (hosts.ranks.size() == static_cast<std::size_t>(config.size)) return all;
  auto local = within_host(hosts, config);
  return make_hierarchical(std::move(all), std::move(local), std::move(hosts.ranks), config.rank);
}

/// MPI knows itself alone where the launcher does not know MPI, and each rank would be a job of one. Parts of
/// what MPI has started may well be jobs of their own.
void check_mpi_started_all(const Config& config, const MpiMeeting& meeting) {
  // A program may also have filled in its Config by itself.
  const int launched = config.size > 1 ? config.size : size_in_environment();
  if (launched <= 1 || launched == meeting.started) return;
  const bool by_hrun = config.launcher.empty();
  throw Error(Code::invalid_argument,
              fmt::format("{} has started {} ranks, but MPI knows of {} process{}: start them {}",
                          by_hrun ? "hrun" : config.launcher, launched, meeting.started,
                          meeting.started == 1 ? ", this one, so each rank would train alone" : "es",
                          by_hrun ? fmt::format("with `hrun --mpi -np {}`, or use no communicator", launched)
                                  : "with mpirun, or so that MPI knows them (srun --mpi=pmix)"));
}

/// Asks MPI who this process is and where rank 0 is. The socket that listens there, on rank 0.
Descriptor meet_through_mpi(Config& config, TimePoint deadline) {
  auto meeting = load_mpi().meet(config, deadline);
  check_mpi_started_all(config, meeting);
  config.rank = meeting.rank;
  config.size = meeting.size;
  config.local_rank = meeting.local_rank;
  config.local_size = meeting.local_size;
  config.cross_rank = meeting.cross_rank;
  config.cross_size = meeting.cross_size;
  config.coordinator = std::move(meeting.coordinator);
  config.coordinator_fd = meeting.listener ? std::optional(meeting.listener.fd()) : std::nullopt;
  config.secret = meeting.secret;
  return std::move(meeting.listener);
}

/// Fills in the secret and the address of rank 0, which hrun gives its ranks and other launchers do not. Rank
/// 0 holds the returned descriptor until all ranks have met.
Descriptor make_up_for_hrun(Config& config, TimePoint deadline) {
  if (config.mpi_communicator) return meet_through_mpi(config, deadline);
  if (!config.meeting_place.empty()) return gather_on_host(config, deadline);
  if (!config.secret_file.empty()) config.secret = secret_from_file(config.secret_file, config.job);
  if (config.launcher.empty()) return {};
  if (config.coordinator.empty() && config.launcher == "Open MPI") return meet_through_mpi(config, deadline);
  if (config.coordinator.empty()) {
    throw Error(
        Code::invalid_argument,
        fmt::format("{} started {} ranks on several hosts, and does not tell them where rank 0 is: set "
                    "HORA_COORDINATOR=host:port for all of them, with the host of rank 0, and "
                    "HORA_SECRET_FILE",
                    config.launcher, config.size));
  }
  if (config.secret == Secret{}) {
    throw Error(
        Code::invalid_argument,
        fmt::format("{} started {} ranks on several hosts, and they share no secret: make a file that only "
                    "you can read and all hosts see, and start again: {}",
                    config.launcher, config.size, how_to_make_a_secret()));
  }
  Descriptor door;
  if (config.rank == 0 && !config.coordinator_fd) {
    door = listen_at_first_free(config.coordinator);
    config.coordinator_fd = door.fd();
  }
  return door;
}

/// A job of one rank.
World alone(const Config& config) {
  World world = local::LocalGroup(1).join(0);
  world.job = job_id(config);
  return world;
}

}  // namespace

World connect(Config& config) {
  if (config.size == 1 && !config.mpi_communicator) return alone(config);
  const TimePoint deadline = Clock::now() + config.start_timeout;
  const Descriptor door = make_up_for_hrun(config, deadline);
  if (config.size == 1) return alone(config);  // one process in the communicator
  World world = tcp::connect_tcp_control(config, deadline);
  settle_places(config, world.members);
  try {
    agree(config, *world.control, world.members, deadline);
    // Before what may take until the deadline on some ranks: nobody waits here for one that is there.
    world.messenger = tcp::connect_tcp_messenger(*world.control, world.members, config, deadline);
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
