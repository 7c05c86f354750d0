// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"
#include "core/comm/control.h"
#include "core/comm/membership.h"

#include <hora/config.h>

#include <memory>
#include <string>

namespace hora {

/// The membership that the processes of an MPI communicator have told each other. A value.
struct MpiBootstrap {
  Membership membership;
  int started = 1;  ///< the size of MPI_COMM_WORLD; the job may be a part of it
};

/// The functions of libhora_mpi.so, which libhora loads when it needs MPI. `bootstrap` and `connect` start
/// MPI if the program has not; it is then ended at the program's exit. They use the communicator of
/// `config.mpi_communicator`, else MPI_COMM_WORLD, and throw Error.
struct MpiModule {
  /// The name of the MPI library: "Open MPI v4.1.4". May be called before MPI is started.
  std::string (*library)() = nullptr;
  /// Whether MPI runs with MPI_THREAD_MULTIPLE. False if it has not been started.
  bool (*any_thread)() = nullptr;
  /// Finds rank, size, and the address and secret of rank 0. All processes of the communicator call it, on a
  /// thread that may call MPI. If rank 0's Config has a secret, all get that one. Throws Error(timeout) at
  /// the deadline.
  MpiBootstrap (*bootstrap)(const Config& config, TimePoint deadline) = nullptr;
  /// Makes a collective over MPI. The processes of the communicator must be the ranks of the job; their order
  /// in it does not matter. Throws Error(unavailable) if its size is not that of the job, or if MPI does not
  /// permit calls from the engine's thread.
  std::unique_ptr<Collective> (*connect)(Control& control, const Config& config,
                                         TimePoint deadline) = nullptr;
};

/// Loads libhora_mpi.so, once. Throws Error(unavailable) if it is not installed or cannot be loaded.
/// Thread-safe.
[[nodiscard]] const MpiModule& load_mpi();
/// The path of that file. Throws as `load_mpi` does.
[[nodiscard]] std::string mpi_module_path();

}  // namespace hora
