// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/comm/membership.h"

#include <hora/config.h>

namespace hora {

/// The membership that the settings of hrun's ranks name as they are.
[[nodiscard]] Membership membership_of(const Config& config);

/// The membership of this process in the job for which it was started. MPI tells it for `mpi_communicator`,
/// and for mpirun on several hosts. A local socket tells it for `meeting_place`, else the settings do. All
/// ranks call it. It blocks until this rank's place is known, at most until the deadline. Throws
/// Error(timeout) at the deadline, Error(unavailable) where the launcher cannot be used, and
/// Error(invalid_argument) where it tells too little.
[[nodiscard]] Membership find_membership(const Config& config, TimePoint deadline);

}  // namespace hora
