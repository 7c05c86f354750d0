// SPDX-License-Identifier: Apache-2.0
#include "core/join/find_membership.h"

#include "core/backend/mpi_module.h"
#include "core/base/rank_assignment.h"
#include "core/join/first_free_port.h"
#include "core/join/host_bootstrap.h"
#include "core/join/host_ranks.h"
#include "core/join/secret_file.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/socket.h>

#include <utility>

namespace hora {
namespace {

/// MPI knows itself alone where the launcher does not know MPI, and each rank would be a job of one. Parts of
/// what MPI has started may well be jobs of their own.
void check_mpi_started_all(const Config& config, const MpiBootstrap& bootstrap) {
  // A program may also have filled in its Config by itself.
  const int launched = config.size > 1 ? config.size : size_in_environment();
  if (launched <= 1 || launched == bootstrap.started) return;
  const bool by_hrun = config.launcher.empty();
  throw Error(Code::invalid_argument,
              fmt::format("{} has started {} ranks, but MPI knows of {} process{}: start them {}",
                          by_hrun ? "hrun" : config.launcher, launched, bootstrap.started,
                          bootstrap.started == 1 ? ", this one, so each rank would train alone" : "es",
                          by_hrun ? fmt::format("with `hrun --mpi -np {}`, or use no communicator", launched)
                                  : "with mpirun, or so that MPI knows them (srun --mpi=pmix)"));
}

/// MPI tells each process its rank, and where rank 0 is.
Membership meet_through_mpi(const Config& config, TimePoint deadline) {
  MpiBootstrap bootstrap = load_mpi().bootstrap(config, deadline);
  check_mpi_started_all(config, bootstrap);
  return std::move(bootstrap.membership);
}

[[noreturn]] void refuse_without_coordinator(const Config& config) {
  throw Error(Code::invalid_argument,
              fmt::format("{} started {} ranks on several hosts, and does not tell them where rank 0 is: set "
                          "HORA_COORDINATOR=host:port for all of them, with the host of rank 0, and "
                          "HORA_SECRET_FILE",
                          config.launcher, config.size));
}

[[noreturn]] void refuse_without_secret(const Config& config) {
  throw Error(
      Code::invalid_argument,
      fmt::format("{} started {} ranks on several hosts, and they share no secret: make a file that only "
                  "you can read and all hosts see, and start again: {}",
                  config.launcher, config.size, how_to_make_a_secret()));
}

/// The settings, and the secret and the listener of rank 0 that hrun makes for its ranks and other launchers
/// do not.
Membership complete(const Config& config, TimePoint deadline) {
  Membership membership = membership_of(config);
  if (!config.secret_file.empty()) membership.secret = secret_from_file(config.secret_file, config.job);
  if (config.launcher.empty()) return membership;
  if (config.launcher == "Open MPI" && config.coordinator.empty()) {
    Config with_secret = config;
    with_secret.secret = membership.secret;
    return meet_through_mpi(with_secret, deadline);
  }
  if (config.coordinator.empty()) refuse_without_coordinator(config);
  if (membership.secret == Secret{}) refuse_without_secret(config);
  if (config.rank == 0 && !membership.listener)
    membership.listener = std::make_shared<const Descriptor>(listen_at_first_free(config.coordinator));
  return membership;
}

/// A socket of our own for the launcher's, which stays open, so that this process may join again after a
/// shutdown.
std::shared_ptr<const Descriptor> listener_of_launcher(int fd) {
  auto listener = std::make_shared<const Descriptor>(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  int listens = 0;
  socklen_t length = sizeof listens;
  if (::getsockopt(listener->fd(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0)
    return listener;
  throw Error(Code::invalid_argument,
              fmt::format("HORA_COORDINATOR_FD={} is not a listening socket: start the ranks with hrun", fd));
}

}  // namespace

Membership membership_of(const Config& config) {
  Membership membership;
  membership.rank = config.rank;
  membership.size = config.size;
  membership.local_rank = config.local_rank;
  membership.local_size = config.local_size;
  membership.cross_rank = config.cross_rank;
  membership.cross_size = config.cross_size;
  membership.coordinator = config.coordinator;
  if (config.coordinator_fd) membership.listener = listener_of_launcher(*config.coordinator_fd);
  membership.secret = config.secret;
  return membership;
}

Membership find_membership(const Config& config, TimePoint deadline) {
  if (config.mpi_communicator) return meet_through_mpi(config, deadline);
  if (config.size == 1) return settle_host_ranks(membership_of(config), std::vector<int>{0});
  if (!config.meeting_place.empty()) return bootstrap_on_host(membership_of(config), config, deadline);
  return complete(config, deadline);
}

}  // namespace hora
