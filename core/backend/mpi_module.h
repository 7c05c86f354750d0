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
struct MpiMeeting {
  Membership membership;
  int started = 1;  ///< the processes of MPI_COMM_WORLD, of which these are all or some
};

/// The functions of libhora_mpi.so for libhora. MPI is started if the program has not done it, and is then
/// ended at the program's exit. The communicator is the one of `config.mpi_communicator`, else
/// MPI_COMM_WORLD. Functions throw Error.
struct MpiModule {
  /// "Open MPI v4.1.4": the library that answers here. At any time.
  std::string (*library)() = nullptr;
  /// Whether the MPI that has been started lets several threads call it at a time. False if none has been.
  bool (*any_thread)() = nullptr;
  /// All processes of the communicator call it, in a thread that MPI permits; rank 0's secret counts, if it
  /// has one. Throws Error(timeout) at the deadline.
  MpiMeeting (*meet)(const Config& config, TimePoint deadline) = nullptr;
  /// A collective of the communicator's processes, which are the job's ranks; any order. Throws
  /// Error(unavailable) if they are not, or if MPI does not permit calls from the engine's thread.
  std::unique_ptr<Collective> (*connect)(Control& control, const Config& config,
                                         TimePoint deadline) = nullptr;
};

/// Throws Error(unavailable) if there is none here. Thread-safe.
[[nodiscard]] const MpiModule& load_mpi();
/// The file that it lies in. Throws as `load_mpi` does.
[[nodiscard]] std::string mpi_module_path();

}  // namespace hora
