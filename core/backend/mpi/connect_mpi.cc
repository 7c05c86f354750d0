// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi/bootstrap.h"
#include "core/backend/mpi/mpi_collective.h"
#include "core/base/log.h"
#include "core/join/exchange.h"

#include <fmt/format.h>

namespace hora::mpi {
namespace {

void check_threads() {
  const int level = thread_level();
  if (level == MPI_THREAD_MULTIPLE) return;
  if (level == MPI_THREAD_SERIALIZED) {
    log(LogLevel::info,
        "MPI was started with MPI_THREAD_SERIALIZED: the program must not call MPI while an operation of "
        "Hora's is "
        "under way");
    return;
  }
  throw Error(
      Code::unavailable,
      "HORA_CPU_OPERATIONS=mpi: the program has started MPI without threads, but Hora calls it from its "
      "engine's. Start it with MPI_Init_thread and MPI_THREAD_MULTIPLE, or let Hora start it; other "
      "CPU operations (auto) do not need that");
}

void check_size(MPI_Comm communicator, int ranks) {
  int size = 0;
  MPI_Comm_size(communicator, &size);
  if (size == ranks) return;
  throw Error(
      Code::unavailable,
      fmt::format("HORA_CPU_OPERATIONS=mpi: the job has {} ranks, and {} knows of {}. Start the ranks with "
                  "mpirun (`mpirun -np {} ./train`), or by what MPI takes its processes from (srun "
                  "--mpi=pmix), or use other CPU operations",
                  ranks, library_name(), size, ranks));
}

}  // namespace

std::unique_ptr<Collective> connect_mpi(Control& control, const Config& config, TimePoint deadline) {
  auto session = enter_mpi();
  check_threads();
  const MPI_Comm all = communicator_of(config);
  check_size(all, control.size());
  MPI_Comm own = MPI_COMM_NULL;
  try {
    // The split that follows waits for all ranks, and nothing can end it; so first all say that they come.
    exchange(control, {}, deadline);
    check_mpi(MPI_Comm_split(all, 0, control.rank(), &own),
              "MPI_Comm_split");  // in the order of the job's ranks
  } catch (...) {
    session->spoil();
    throw;
  }
  return make_mpi_collective(std::make_shared<Channel>(std::move(session), own));
}

}  // namespace hora::mpi
