// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/mpi/mpi_transfers.h"
#include "core/backend/mpi_module.h"

namespace hora::mpi {

/// A collective of the processes of the channel's communicator.
std::unique_ptr<Collective> make_mpi_collective(std::shared_ptr<Channel> channel);

/// As MpiModule::connect says.
std::unique_ptr<Collective> connect_mpi(Control& control, const Config& config, TimePoint deadline);

}  // namespace hora::mpi
