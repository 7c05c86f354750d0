// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/nccl/lane_communicators.h"
#include "core/comm/collective.h"

#include <memory>

namespace hora::nccl {

/// A collective on a GPU's memory. `communicator` is one of the lane's, and is ended with this; it is null if
/// there is only one rank, since that needs none, and one takes memory.
std::unique_ptr<Collective> make_nccl_collective(std::shared_ptr<LaneCommunicators> lane,
                                                 std::shared_ptr<Communicator> communicator, int rank,
                                                 int ranks);

}  // namespace hora::nccl
