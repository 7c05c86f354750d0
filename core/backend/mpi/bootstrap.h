// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/mpi_module.h"

#include <mpi.h>

namespace hora::mpi {

/// The communicator that the job's ranks are: of `config.mpi_communicator`, else MPI_COMM_WORLD. MPI runs.
/// Throws Error(invalid_argument) if there is none of that number.
[[nodiscard]] MPI_Comm communicator_of(const Config& config);

/// As MpiModule::bootstrap says. The data that ranks tell each other here, the secret among it, is as safe
/// from others as MPI's own messages are.
MpiBootstrap bootstrap_by_mpi(const Config& config, TimePoint deadline);

}  // namespace hora::mpi
